package evaluate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// A column of more than mostCategories is coarse: classifiers and the importance of columns see its most frequent
// categories, and all others as one. Otherwise memory would grow with rows times categories, and the work of a linear
// model with the cube of the categories. The coarse columns of a schema keep mostCategories together, but each of them
// keeps at least leastCategories.
const (
	mostCategories  = 500
	leastCategories = 10
)

// coarse knows which categories of coarse columns are put together.
type coarse struct {
	kept int           // the number of categories that a coarse column keeps
	of   map[int][]int // by coarse column: what each category becomes, kept if it is put together with others
}

// coarseColumns returns the columns of a schema that are coarse, and how many categories each keeps.
func coarseColumns(schema *partition.Schema) (columns []int, kept int) {
	for j := range schema.Columns {
		c := &schema.Columns[j]
		if c.HasCell() && c.Kind == partition.Categorical && len(c.Categories) > mostCategories &&
			j != schema.LabelColumn() {
			columns = append(columns, j)
		}
	}
	return columns, max(leastCategories, mostCategories/max(1, len(columns)))
}

// newCoarse keeps the categories that are most frequent in a table; of equally frequent ones, those that the schema
// lists first.
func newCoarse(t *partition.Table) *coarse {
	columns, kept := coarseColumns(t.Schema())
	c := &coarse{kept: kept, of: map[int][]int{}}
	for _, j := range columns {
		rows := make([]int, len(t.Schema().Columns[j].Categories))
		for i := range t.Len() {
			if v := t.Cells(i)[j]; v == v { // not empty
				rows[int(v)]++
			}
		}
		order := count(len(rows))
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows[b], rows[a]) })
		into := slices.Repeat([]int{kept}, len(rows))
		slices.Sort(order[:kept])
		for at, category := range order[:kept] {
			into[category] = at
		}
		c.of[j] = into
	}
	return c
}

// size is the number of categories of a column, without the one for empty cells.
func (c *coarse) size(schema *partition.Schema, column int) int {
	if c != nil && c.of[column] != nil {
		return c.kept + 1
	}
	return len(schema.Columns[column].Categories)
}

// code is what a category of a column becomes.
func (c *coarse) code(column, category int) int {
	if c != nil && c.of[column] != nil {
		return c.of[column][category]
	}
	return category
}

// features returns the place of each feature of an encoder among fewer features, and the number of those.
func (c *coarse) features(encoder *encode.Encoder) (into []int, width int) {
	for _, h := range encoder.Heads() {
		categories := 0
		if h.Kind == encode.HeadCategory {
			categories = len(encoder.Schema().Columns[h.Column].Categories)
		}
		for i := range categories {
			into = append(into, width+c.code(h.Column, i))
		}
		if categories > 0 {
			width += c.size(encoder.Schema(), h.Column)
		}
		for range h.Width - categories {
			into, width = append(into, width), width+1
		}
	}
	return into, width
}

// encodedAtOnce bounds the features that are in memory before coarse columns become narrow.
const encodedAtOnce = 1 << 22

// matrix returns the features of all rows, and their classes.
func (c *coarse) matrix(encoder *encode.Encoder, t *partition.Table) (classify.Matrix, []int) {
	into, width := c.features(encoder)
	m := classify.Matrix{Rows: t.Len(), Cols: width, Data: make([]float64, t.Len()*width)}
	classes := make([]int, 0, t.Len())
	var x encode.Encoded
	all, rows := count(t.Len()), max(1, encodedAtOnce/max(1, encoder.Width()))
	for first := 0; first < len(all); first += rows {
		encoder.EncodeInto(&x, t.Subset(all[first:min(first+rows, len(all))]))
		for i := range x.Len() {
			row := m.Row(first + i)
			for feature, v := range x.Row(i) {
				if v != 0 {
					row[into[feature]] = float64(v) // categories exclude each other
				}
			}
		}
		classes = append(classes, x.Classes...)
	}
	return m, classes
}

// coarseNotes says which columns are coarse, for a schema with a label.
func coarseNotes(schema *partition.Schema) []string {
	columns, kept := coarseColumns(schema)
	if len(columns) == 0 || schema.LabelColumn() < 0 {
		return nil
	}
	const most = 3
	var names []string
	for _, j := range columns[:min(most, len(columns))] {
		names = append(names, schema.Columns[j].Name)
	}
	if len(columns) > most {
		names = append(names, "...")
	}
	return []string{fmt.Sprintf("Columns with more than %d categories (%s): classifiers and the importance of columns "+
		"see the %d most frequent categories, and all others as one.", mostCategories, strings.Join(names, ", "), kept)}
}
