package partition

import (
	"fmt"
	"slices"
)

// maxTableBytes bounds the cells of a table that is not read from text: a file of
// few bytes can say that it has any number of rows, and so can a query.
const maxTableBytes = 4 << 30

// Builder makes a table of rows from any source. Every source gives a cell as the
// text that CSV has, so that the rules of cells are the same for all of them, and the
// tables of the same rows are equal. Its errors are *InputError and hold no cell.
type Builder struct {
	schema  *Schema
	name    string
	source  Source
	options ReadOptions
	table   *Table
	target  []int // source column -> schema column, or len(schema columns) + index of the extra column
	cells   []float64
	unit    string
	row     int // that is being added, from 1
	most    int // rows, 0 for any number
}

// toNowhere is the target of an ignored unit column.
const toNowhere = -1

// NewBuilder begins a table of a source with these columns: each of the schema's, in
// any order, and those that the options allow beside them. name is for errors. A
// table of more than 4 GiB is refused when it gets there.
func NewBuilder(s *Schema, name string, from Source, columns []SourceColumn, o ReadOptions) (*Builder, error) {
	if err := o.check(s); err != nil {
		return nil, &InputError{File: name, Problem: err.Error()}
	}
	b, bad := newBuilder(s, name, from, columns, o)
	if bad != nil {
		return nil, bad
	}
	b.most = max(1, maxTableBytes/(8*len(columns)))
	return b, nil
}

func newBuilder(s *Schema, name string, from Source, columns []SourceColumn, o ReadOptions) (*Builder, *InputError) {
	if o.Weights && s.AcceptsWeights() == nil && !slices.Contains(o.Extra, WeightColumn) {
		o.Extra = append(slices.Clone(o.Extra), WeightColumn)
	}
	b := &Builder{schema: s, name: name, source: from, options: o, table: NewTable(s), cells: make([]float64, len(s.Columns))}
	if s.unit >= 0 {
		b.cells[s.unit] = nan
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
func (b *Builder) Table() (*Table, error) {
	if b.row == 0 {
		return nil, b.fail("", b.source.empty, b.source.mendEmpty)
	}
	if b.options.Weights {
		if bad := b.checkWeights(); bad != nil {
			return nil, bad
		}
	}
	return selectRows(b.table, b.name, b.options)
}

func (b *Builder) fail(column, problem, mend string) *InputError {
	return &InputError{File: b.name, Row: b.row, Column: column, Problem: problem, Mend: mend}
}

// add is Add that tells in which of the source's columns the fault is.
func (b *Builder) add(texts []string) (bad *InputError, at int) {
	b.row++
	b.unit = ""
	if b.most > 0 && b.row > b.most {
		return b.fail("", fmt.Sprintf("a table of more than %d rows", b.most), "divide it among several nodes, or choose fewer rows"), 0
	}
	for i, text := range texts {
		if fault := b.set(i, text); fault != nil {
			return b.fail(b.columnName(i), fault.problem, fault.mend), i
		}
	}
	b.table.push(b.cells, b.unit)
	return nil, 0
}

// set sets a cell of the row.
func (b *Builder) set(i int, text string) (fault *cellFault) {
	columns := b.schema.Columns
	switch at := b.target[i]; {
	case at == toNowhere:
	case at >= len(columns):
		v, fault := parseNumber(text)
		if fault != nil {
			fault.mend = "give every row a finite number in this column" // the schema does not know it
		}
		extra := &b.table.extra[at-len(columns)]
		extra.Values = append(extra.Values, v)
		return fault
	case at == b.schema.unit:
		b.unit, fault = columns[at].parseUnit(text)
	default:
		b.cells[at], fault = columns[at].parseCell(text)
	}
	return fault
}

// columnName is the schema's name of a source's column.
func (b *Builder) columnName(i int) string {
	switch at := b.target[i]; {
	case at == toNowhere:
		return b.schema.Columns[b.schema.unit].Name
	case at >= len(b.schema.Columns):
		return b.table.extra[at-len(b.schema.Columns)].Name
	default:
		return b.schema.Columns[at].Name
	}
}
