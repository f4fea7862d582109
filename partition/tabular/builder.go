// Package tabular reads tables from CSV and Parquet files, sheets of workbooks, and files of images as tables,
// and writes them as CSV. Start with [Read].
//
// [Builder] makes a table of rows from any source, whose cells are texts as CSV has
// them, under the same rules. So the same rows give the same table whatever they were
// read from. Digests are of parsed values, not of texts. What is wrong with cells and rows
// is counted and told at once, see [Violations].
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
// tables of the same rows are equal. Its errors are *InputError and *Violations, and hold no cell.
type Builder struct {
	layout
	options Options
	table   *partition.Table
	weights []float64 // nil where the source has none
	wrong   tally
	// decimals are those of all parts.
	decimals [3]tally
	row      int   // that was added last, from 1
	most     int   // rows, 0 for any number
	one      *part // of Add
}

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

// Match says which column of the schema each of a source's is, -1 where nothing reads it, under the rules of
// [NewBuilder].
func Match(s *partition.Schema, name string, from Source, columns []SourceColumn, o Options) ([]int, error) {
	b, err := NewBuilder(s, name, from, columns, o)
	if err != nil {
		return nil, err
	}
	return b.target, nil
}

func mostRows(columns int) int { return max(1, maxTableBytes/(8*columns)) }

func newBuilder(s *partition.Schema, name string, from Source, columns []SourceColumn, o Options) (*Builder,
	*partition.InputError) {
	b := &Builder{options: o, table: partition.NewTable(s), wrong: tally{}, decimals: newDecimals(),
		layout: layout{schema: s, name: name, source: from, empty: make([]float64, len(s.Columns))}}
	for i := range s.Columns {
		if !s.Columns[i].HasCell() {
			b.empty[i] = math.NaN()
		}
	}
	if bad := b.match(columns); bad != nil {
		return nil, bad
	}
	b.plainly(false)
	b.one = b.newPart()
	return b, nil
}

// Add adds a row of texts as CSV has them, one for each of the source's columns; an
// empty one is an empty cell. It fails where no more rows can be added; what is wrong with cells and rows is the error
// of Table.
func (b *Builder) Add(texts []string) error { return b.addWith(texts, nil) }

// addWith is Add of a row with cells that the source calls wrong, by their columns; by the number of columns the whole
// row is.
func (b *Builder) addWith(texts []string, faults map[int]*partition.CellFault) error {
	if len(texts) != len(b.target) {
		return fmt.Errorf("add a row: %d cells for %d columns", len(texts), len(b.target))
	}
	if b.most > 0 && b.row >= b.most {
		return b.Broken(&partition.InputError{File: b.name, Row: b.row + 1,
			Problem: fmt.Sprintf("a table of more than %d rows", b.most),
			Fix:     "divide it among several nodes, or choose fewer rows"})
	}
	if fault := faults[len(texts)]; fault != nil {
		b.one.rows++
		b.one.refuse(fault, func() int { return 0 })
	} else {
		b.one.add(texts, faults, func(int) int { return 0 })
	}
	b.take(b.one, 0)
	return nil
}

// Take gives the rows that were added since it was last called, and keeps none of them. So a builder reads a table of
// any size, whose end is that of End.
func (b *Builder) Take() *partition.Table {
	t := b.table
	b.table, b.most = partition.NewTable(b.schema), 0
	return t
}

// End says what is wrong with the source when all of it was read; see [Builder.Table].
func (b *Builder) End() error { return b.end() }

// Broken is the error of a source that cannot be read on for the given reason: that, with what was wrong before.
func (b *Builder) Broken(why error) error {
	if len(b.wrong) == 0 {
		return why
	}
	return &Violations{File: b.name, Rows: b.row, Found: b.wrong.list(), Ended: why}
}

// Table ends the table: the rows of the site and share that the options ask for. Where cells or rows are not as the
// schema has them the error is *Violations.
func (b *Builder) Table() (*partition.Table, error) {
	if err := b.end(); err != nil {
		return nil, err
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

// end says what is wrong with the source when all of it was read.
func (b *Builder) end() error {
	if b.row == 0 && !b.options.ofPart {
		return b.fail("", b.source.empty, b.source.fixEmpty)
	}
	if b.mixed(); len(b.wrong) > 0 {
		return &Violations{File: b.name, Rows: b.row, Found: b.wrong.list()}
	}
	return nil
}

func (b *Builder) fail(column, problem, fix string) *partition.InputError {
	return &partition.InputError{File: b.name, Column: column, Problem: problem, Fix: fix}
}
