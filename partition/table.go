package partition

import (
	"errors"
	"fmt"
	"slices"
)

// Table holds the parsed rows of one schema: a float64 per column and row, and
// the privacy unit's text. A cell is the number itself, the index of its
// category, 0 or 1 for binary, and NaN when it is empty. The cell of a column
// of role unit is always NaN; its text is kept beside. Reading a table from
// several goroutines at once is safe, appending is not.
type Table struct {
	schema *Schema
	cells  []float64 // rows x columns
	units  []string  // nil when the schema has no unit column
	rows   int
	// weights are those of synthetic rows, nil where they have none; see weights.go.
	weights []float64
}

// NewTable makes an empty table.
func NewTable(s *Schema) *Table { return &Table{schema: s} }

// Len is the number of rows. It is private unless it is released with noise.
func (t *Table) Len() int { return t.rows }

// Schema is the schema the table was made for.
func (t *Table) Schema() *Schema { return t.schema }

// Cells are the cells of a row, one per column of the schema. The slice is the
// table's own: do not write to it.
func (t *Table) Cells(row int) []float64 {
	n := len(t.schema.Columns)
	return t.cells[row*n : (row+1)*n : (row+1)*n]
}

// Unit is the text of the row's privacy unit, empty when the schema has no
// column of role unit.
func (t *Table) Unit(row int) string {
	if t.units == nil {
		return ""
	}
	return t.units[row]
}

// Append adds a row. It refuses cells that the schema does not allow (it never
// moves them) and a unit where the schema has no unit column. A generated row
// may have an empty unit; Assign refuses such rows.
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
			return &InputError{Row: t.rows + 1, Column: columns[i].Name, Problem: fault.Problem, Fix: fault.Fix}
		}
	}
	if fault := brokenFault(t.schema.Broken(cells)); fault != nil {
		return &InputError{Row: t.rows + 1, Problem: fault.Problem, Fix: fault.Fix}
	}
	if unit != "" {
		if t.schema.unit < 0 {
			return errors.New("append a row: it has a unit but the schema has no column of role unit")
		}
		c := &columns[t.schema.unit]
		text, fault := c.ParseUnit(unit)
		if fault != nil {
			return &InputError{Row: t.rows + 1, Column: c.Name, Problem: fault.Problem, Fix: fault.Fix}
		}
		unit = text
	}
	t.Push(cells, unit)
	return nil
}

// Grow makes room for so many more rows.
func (t *Table) Grow(rows int) {
	if n := rows * len(t.schema.Columns); t.cells == nil {
		t.cells = make([]float64, 0, n) // which touches no memory, as slices.Grow does
	} else {
		t.cells = slices.Grow(t.cells, n)
	}
}

// Push adds a row that is known to be good: what reads rows has checked each cell.
func (t *Table) Push(cells []float64, unit string) {
	for _, cell := range cells {
		t.cells = append(t.cells, cell+0) // no -0: equal cells must hash equally
	}
	if t.schema.unit >= 0 {
		t.units = append(t.units, unit)
	}
	t.rows++
}

// Extend adds rows that are known to be good, their cells one row after the other, and units where the schema has
// a column of role unit.
func (t *Table) Extend(cells []float64, units []string) {
	have := len(t.cells)
	t.cells = append(t.cells, cells...)
	for i := range t.cells[have:] {
		t.cells[have+i] += 0 // no -0: equal cells must hash equally
	}
	t.units = append(t.units, units...)
	t.rows += len(cells) / len(t.schema.Columns)
}

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

// Label gives the class index of a row, or 0 when the schema has no classes.
func (t *Table) Label(row int) int {
	if !t.schema.HasClasses() {
		return 0
	}
	return int(t.Cells(row)[t.schema.label])
}
