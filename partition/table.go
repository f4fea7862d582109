package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Table has the parsed rows of one schema: a float64 per column and row, and the privacy unit's text. A cell is the
// number itself, the index of its category or prefix, 0 or 1 for binary, units since the lower bound for a date, and
// NaN if it is empty. The cell of a unit column is always NaN, and its text is kept separately. The cell of an
// identifier is NaN, without a text. Concurrent reads are safe, appending is not.
type Table struct {
	schema *Schema
	cells  []float64 // rows x columns
	units  []string  // nil if the schema has no unit column
	rows   int
	// weights are the weights of synthetic rows, or nil.
	weights []float64
}

// NewTable makes an empty table.
func NewTable(s *Schema) *Table { return &Table{schema: s} }

// Len is the number of rows. It is private unless it is released with noise.
func (t *Table) Len() int { return t.rows }

// Schema is the schema of the table.
func (t *Table) Schema() *Schema { return t.schema }

// Cells returns the cells of a row, one per column of the schema. The table owns the slice: do not write to it.
func (t *Table) Cells(row int) []float64 {
	n := len(t.schema.Columns)
	return t.cells[row*n : (row+1)*n : (row+1)*n]
}

// Unit is the text of the row's privacy unit, empty if the schema has no column with role unit.
func (t *Table) Unit(row int) string {
	if t.units == nil {
		return ""
	}
	return t.units[row]
}

// AppendCell appends the text of a cell as in files: [Column.CellText], the unit's text, a code of the site's list,
// or the row's running number for an identifier.
func (t *Table) AppendCell(b []byte, row, column int) []byte {
	if column == t.schema.unit {
		return append(b, t.Unit(row)...)
	}
	return t.schema.Columns[column].appendCell(b, t.Cells(row)[column], row)
}

// Append adds a row. It refuses cells that the schema does not allow (it never moves them) and a unit if the schema
// has no unit column. A generated row may have an empty unit; Assign refuses such rows.
func (t *Table) Append(cells []float64, unit string) error {
	columns := t.schema.Columns
	if t.weights != nil {
		return errors.New("append a row: the rows have weights; append to a new table")
	}
	if len(cells) != len(columns) {
		return fmt.Errorf("append a row: %d cells for a schema of %d columns", len(cells), len(columns))
	}
	for i := range columns {
		if fault := columns[i].checkCell(cells[i]); fault != nil {
			return fault.in(t.rows+1, columns[i].Name)
		}
	}
	if fault := t.schema.brokenFault(t.schema.Broken(cells)); fault != nil {
		return fault.in(t.rows+1, "")
	}
	if unit != "" {
		if t.schema.unit < 0 {
			return errors.New("append a row: it has a unit but the schema has no column of role unit")
		}
		c := &columns[t.schema.unit]
		text, fault := c.ParseUnit(unit)
		if fault != nil {
			return fault.in(t.rows+1, c.Name)
		}
		unit = text
	}
	t.Push(cells, unit)
	return nil
}

// Grow makes room for this many more rows.
func (t *Table) Grow(rows int) {
	if n := rows * len(t.schema.Columns); t.cells == nil {
		t.cells = make([]float64, 0, n) // unlike slices.Grow, this touches no memory
	} else {
		t.cells = slices.Grow(t.cells, n)
	}
}

// Push adds a row whose cells the caller has checked.
func (t *Table) Push(cells []float64, unit string) {
	for _, cell := range cells {
		t.cells = append(t.cells, cell+0) // no -0: equal cells must hash equally
	}
	if t.schema.unit >= 0 {
		t.units = append(t.units, unit)
	}
	t.rows++
}

// Extend adds checked rows, with their cells row by row, and units if the schema has a column with role unit.
func (t *Table) Extend(cells []float64, units []string) {
	have := len(t.cells)
	t.cells = append(t.cells, cells...)
	for i := range t.cells[have:] {
		t.cells[have+i] += 0 // no -0: equal cells must hash equally
	}
	t.units = append(t.units, units...)
	t.rows += len(cells) / len(t.schema.Columns)
}

// Reset removes all rows and keeps the memory.
func (t *Table) Reset() { t.cells, t.units, t.rows, t.weights = t.cells[:0], t.units[:0], 0, nil }

// Subset is a new table of the given rows, in that order.
func (t *Table) Subset(rows []int) *Table {
	n := len(t.schema.Columns)
	out := &Table{schema: t.schema, rows: len(rows), cells: make([]float64, 0, len(rows)*n)}
	if t.units != nil {
		out.units = make([]string, 0, len(rows))
	}
	for _, row := range rows {
		out.cells = append(out.cells, t.Cells(row)...)
		if t.units != nil {
			out.units = append(out.units, t.units[row])
		}
		if t.weights != nil {
			out.weights = append(out.weights, t.weights[row])
		}
	}
	return out
}

// Label is the class index of a row, or 0 if the schema has no classes.
func (t *Table) Label(row int) int {
	if !t.schema.HasClasses() {
		return 0
	}
	return int(t.Cells(row)[t.schema.label])
}

// WeightColumn is the column with the weights of synthetic rows. It is last, after the schema's columns.
const WeightColumn = "weight"

// ErrWeightColumn says that a schema has a column named WeightColumn, so that files of its rows cannot have weights.
var ErrWeightColumn = errors.New("the schema has a column of this name")

// meanTolerance is how far the mean of weights may be from 1: more than rounding over any table, but less than any
// real difference.
const meanTolerance = 1e-9

// AcceptsWeights returns ErrWeightColumn if weights of rows would be mistaken for data.
func (s *Schema) AcceptsWeights() error {
	if s.ColumnIndex(WeightColumn) >= 0 {
		return fmt.Errorf("weights of rows need a column %q: %w; rename it in schema and data, or leave out "+
			"weights", WeightColumn, ErrWeightColumn)
	}
	return nil
}

// CheckWeights fails unless there is one nonnegative weight per row, their mean is 1, and the schema has no column of
// their name (ErrWeightColumn).
func (t *Table) CheckWeights(weights []float64) error {
	if err := t.usable(weights); err != nil {
		return err
	}
	mean := 0.0
	for i, v := range weights {
		mean += (v - mean) / float64(i+1)
	}
	if !(math.Abs(mean-1) <= meanTolerance) {
		return fmt.Errorf("the mean of the weights is %v, not 1; divide them by it", mean)
	}
	return nil
}

// Weights returns the rows' weights from Options.Weights or WithWeights: one each, nonnegative. It is nil if the file
// had none.
func (t *Table) Weights() []float64 { return t.weights }

// WithWeights returns a table of the same rows with these weights, one each, none negative, instead of earlier ones.
// It fails with ErrWeightColumn, and for unusable weights.
func (t *Table) WithWeights(weights []float64) (*Table, error) {
	if err := t.usable(weights); err != nil {
		return nil, err
	}
	out := *t
	out.weights = slices.Clone(weights)
	return &out, nil
}

// usable checks weights of the rows except their mean; the error for a single weight is an *InputError without its
// value.
func (t *Table) usable(weights []float64) error {
	if err := t.schema.AcceptsWeights(); err != nil {
		return err
	}
	if len(weights) != t.rows {
		return fmt.Errorf("%d weights for %d rows: give one each", len(weights), t.rows)
	}
	some := false
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return &InputError{Row: i + 1, Column: WeightColumn, Problem: "the weight is negative or not finite",
				Fix: "give every row a finite weight of at least 0"}
		}
		some = some || w > 0
	}
	if !some {
		return &InputError{Column: WeightColumn, Problem: "all weights are 0",
			Fix: "give at least one row a weight above 0, or remove the column"}
	}
	return nil
}

// Block is some rows of a stream, with ascending row numbers in the source, from 0.
type Block struct {
	*Table
	Numbers []int
	// Of is the number of rows of each row's unit, Nth the row's index among them, from 0, if the source returns
	// rows by unit; otherwise nil.
	Nth, Of []uint32
}
