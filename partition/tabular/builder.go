// Package tabular reads tables from CSV and Parquet files, sheets of workbooks, and files of images as tables,
// and writes them as CSV. Start with [Read].
//
// [Builder] makes a table of rows from any source, whose cells are texts as CSV has
// them, under the same rules. So the same rows give the same table whatever they were
// read from. Digests are of parsed values, not of texts.
package tabular

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/partition"
)

// maxTableBytes bounds the cells of a table that is not read from text: a file of
// few bytes can say that it has any number of rows, and so can a query.
const maxTableBytes = 4 << 30

// Builder makes a table of rows from any source. Every source gives a cell as the
// text that CSV has, so that the rules of cells are the same for all of them, and the
// tables of the same rows are equal. Its errors are *InputError and hold no cell.
type Builder struct {
	schema  *partition.Schema
	name    string
	source  Source
	options Options
	table   *partition.Table
	target  []int     // source column -> schema column, toNowhere or toWeights
	weights []float64 // nil where the source has none
	cells   []float64
	unit    string
	row     int // that is being added, from 1
	most    int // rows, 0 for any number
}

const (
	toNowhere = -1 // of an ignored unit column, and of identifiers
	toWeights = -2
)

// NewBuilder begins a table of a source with these columns: each of the schema's, in
// any order, and those that the options allow beside them. name is for errors. A
// table of more than 4 GiB is refused when it gets there.
func NewBuilder(s *partition.Schema, name string, from Source, columns []SourceColumn, o Options) (*Builder, error) {
	if err := o.check(s); err != nil {
		return nil, &partition.InputError{File: name, Problem: err.Error()}
	}
	b, bad := newBuilder(s, name, from, columns, o)
	if bad != nil {
		return nil, bad
	}
	b.most = mostRows(len(columns))
	return b, nil
}

func mostRows(columns int) int { return max(1, maxTableBytes/(8*columns)) }

func newBuilder(s *partition.Schema, name string, from Source, columns []SourceColumn, o Options) (*Builder,
	*partition.InputError) {
	b := &Builder{schema: s, name: name, source: from, options: o, table: partition.NewTable(s),
		cells: make([]float64, len(s.Columns))}
	for i := range s.Columns {
		if !s.Columns[i].HasCell() {
			b.cells[i] = math.NaN()
		}
	}
	if bad := b.match(columns); bad != nil {
		return nil, bad
	}
	return b, nil
}

// Add adds a row of texts as CSV has them, one for each of the source's columns; an
// empty one is an empty cell.
func (b *Builder) Add(texts []string) error {
	if len(texts) != len(b.target) {
		return fmt.Errorf("add a row: %d cells for %d columns", len(texts), len(b.target))
	}
	if bad, _ := b.add(texts); bad != nil {
		return bad
	}
	return nil
}

// Table ends the table: the rows of the site and share that the options ask for.
func (b *Builder) Table() (*partition.Table, error) {
	if b.row == 0 && !b.options.part {
		return nil, b.fail("", b.source.empty, b.source.fixEmpty)
	}
	t := b.table
	if b.weights != nil {
		weighted, err := t.WithWeights(b.weights)
		var bad *partition.InputError
		if errors.As(err, &bad) {
			bad.File = b.name
		}
		if err != nil {
			return nil, err
		}
		t = weighted
	}
	return selectRows(t, b.name, b.options)
}

func (b *Builder) fail(column, problem, fix string) *partition.InputError {
	return &partition.InputError{File: b.name, Row: b.row, Column: column, Problem: problem, Fix: fix}
}

// add is Add that tells in which of the source's columns the fault is.
func (b *Builder) add(texts []string) (bad *partition.InputError, at int) {
	b.row++
	b.unit = ""
	if b.most > 0 && b.row > b.most {
		return b.fail("", fmt.Sprintf("a table of more than %d rows", b.most),
			"divide it among several nodes, or choose fewer rows"), 0
	}
	for i, text := range texts {
		if fault := b.set(i, text); fault != nil {
			return b.fail(b.columnName(i), fault.Problem, fault.Fix), i
		}
	}
	if fault := b.schema.Settle(b.cells); fault != nil {
		return b.fail("", fault.Problem, fault.Fix), 0
	}
	b.table.Push(b.cells, b.unit)
	return nil, 0
}

func (b *Builder) set(i int, text string) (fault *partition.CellFault) {
	columns := b.schema.Columns
	switch at := b.target[i]; {
	case at == toNowhere:
	case at == toWeights:
		v, fault := partition.ParseNumber(text)
		if fault != nil {
			fault.Fix = "give every row a finite number in this column" // the schema does not know it
		}
		b.weights = append(b.weights, v)
		return fault
	case at == b.schema.UnitColumn():
		b.unit, fault = columns[at].ParseUnit(text)
	default:
		b.cells[at], fault = columns[at].ParseCell(text)
	}
	return fault
}

func (b *Builder) columnName(i int) string {
	switch at := b.target[i]; {
	case at == toNowhere:
		return b.schema.Columns[b.schema.UnitColumn()].Name
	case at == toWeights:
		return partition.WeightColumn
	default:
		return b.schema.Columns[at].Name
	}
}
