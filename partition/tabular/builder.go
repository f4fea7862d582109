// Package tabular reads tables from CSV and Parquet files, sheets of workbooks, and image files, and writes them
// as CSV or Parquet. Start with [Read].
//
// [Builder] makes a table from rows of any source, whose cells are texts as in CSV, under the same rules. So the
// same rows give the same table from every source. Digests are of parsed values, not of texts. Invalid cells and
// rows are counted and reported together; see [Violations].
package tabular

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/partition"
)

// maxTableBytes bounds the cells of a table that is not read from text: a small file, or a query, can claim any
// number of rows.
const maxTableBytes = 4 << 30

// Builder makes a table from rows of any source. Every source passes cells as CSV texts, so the same rules apply
// to all of them, and the same rows give equal tables. Its errors are *InputError and *Violations, and contain no
// cell.
type Builder struct {
	layout
	options Options
	table   *partition.Table
	weights []float64 // nil if the source has none
	wrong   tally
	// decimals counts number formats in all parts.
	decimals [3]tally
	row      int   // number of the last row added, from 1
	most     int   // maximum rows, 0 for no limit
	one      *part // used by Add
}

// NewBuilder begins a table for a source with these columns: those of the schema, in any order, and those that the
// options allow in addition. name is for errors. A table fails once it exceeds 4 GiB.
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

// Match returns the schema column of each source column, -1 if nothing reads it, by the rules of [NewBuilder].
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

// Add adds a row of CSV texts, one for each source column; an empty text is an empty cell. It fails if no more
// rows can be added; Table reports invalid cells and rows.
func (b *Builder) Add(texts []string) error { return b.addWith(texts, nil) }

// addWith is Add for a row with cells that the source reports as invalid, by column. A fault at the number of
// columns is for the whole row.
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

// Take returns the rows added since the last call and releases them. So a builder can read a table of any
// size; End ends it.
func (b *Builder) Take() *partition.Table {
	t := b.table
	b.table, b.most = partition.NewTable(b.schema), 0
	return t
}

// End reports what is wrong with the source after all of it was read; see [Builder.Table].
func (b *Builder) End() error { return b.end() }

// Broken is the error for a source that cannot be read further for the given reason, together with earlier
// violations.
func (b *Builder) Broken(why error) error {
	if len(b.wrong) == 0 {
		return why
	}
	return &Violations{File: b.name, Rows: b.row, Found: b.wrong.list(), Ended: why}
}

// Table ends the table and returns the rows of the site and share in the options. If cells or rows do not match
// the schema, the error is *Violations.
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

// end reports what is wrong with the source after all of it was read.
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
