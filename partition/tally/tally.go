// Package tally says what a database counts, without knowing any database.
package tally

// Tally is a sum of weighted counts of cells: each row adds to one entry of each table. The rows of a unit share the
// weight of a table in whole parts: the nth of k adds weight/k, plus one if (n + number of the table) mod k is below
// weight mod k. A unit's rows are sorted by their cells, as in package postgres.
type Tally struct {
	Entries int
	Columns []Cells
	Tables  []Count
}

// Cells says how the values of a column map to cells.
type Cells struct {
	Column int // in the schema
	// Cell maps a parsed value to its cell; NaN is an empty one.
	Cell func(v float64) int
	N    int // number of cells, 2 for a sign
	// Near has intervals of a number such that Cell is constant between neighbouring ones. The table's values within
	// an interval are mapped one by one. Intervals are ascending and may overlap.
	Near [][2]float64
	// Sign makes the row add or subtract: it subtracts if its cell is 0. The column then has no cells in tables.
	Sign bool
}

// Count is a table of one or two columns.
type Count struct {
	First, Second int // indexes of the columns; equal for one column
	Along         int // number of cells of the second
	Start         int // of its entries
	Weight        int
}
