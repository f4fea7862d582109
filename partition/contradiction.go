package partition

import (
	"math"
	"slices"
)

// maxSearch bounds the search for valid rows, in cells and constraints that are visited.
const maxSearch = 1 << 24

// contradiction looks for a value that a constraint names but that no valid row can have, and for columns without any
// valid value. It returns the index of a constraint and the problem, or an empty problem.
//
// For each such value it searches for a valid row. It tries categories one by one. It tries numbers as parts of their
// range: the points of the schema and the gaps between them, which constraints treat alike. [fits] decides how the
// numbers of a row compare.
func (s *Schema) contradiction() (constraint int, problem string) {
	search := search{s: s, domains: map[int][]values{}, about: map[int][]*Constraint{},
		cells: make([]float64, len(s.Columns))}
	for i := range s.constraints {
		c := &s.constraints[i]
		for _, column := range c.Columns {
			search.about[column] = append(search.about[column], c)
		}
		if r, is := c.rule.(*order); is {
			search.orders = append(search.orders, r)
		}
	}
	for i := range s.constraints {
		pins := append([]part{{column: s.constraints[i].Columns[0]}}, s.constraints[i].pins()...)
		for _, pin := range pins {
			found := search.from(pin)
			switch c := &s.Columns[pin.column]; {
			case search.steps > maxSearch:
				return i, "there are too many values to check whether constraints contradict each other"
			case !found && pin.any == nil:
				return i, "constraints contradict each other: no row can satisfy those on column " + c.Name
			case !found:
				return i, "constraints contradict each other: no row can have " + c.describe(pin.any[0])
			}
		}
	}
	return 0, ""
}

// describe says a value or a range in words, for an error.
func (c *Column) describe(v values) string {
	switch {
	case v.empty:
		return c.Name + " empty"
	case v.lo == v.hi:
		return c.Name + " = " + c.CellText(v.lo)
	default:
		return c.Name + " from " + c.CellText(v.lo) + " to " + c.CellText(v.hi)
	}
}

type search struct {
	s       *Schema
	domains map[int][]values      // by column
	about   map[int][]*Constraint // by column
	orders  []*order
	cells   []float64 // of the tried row
	steps   int
}

// domain returns the values of a column, grouped where all constraints treat them alike.
func (x *search) domain(column int) []values {
	if d, made := x.domains[column]; made {
		return d
	}
	c, d := &x.s.Columns[column], []values(nil)
	switch c.Kind {
	case Categorical, Binary:
		for i := range c.ClassCount() {
			d = append(d, values{lo: float64(i), hi: float64(i)})
		}
	default:
		lo, hi := c.Range()
		add := func(from, to float64) {
			if c.Kind == Integer {
				from, to = math.Ceil(from), math.Floor(to)
			}
			if from <= to {
				d = append(d, values{lo: from, hi: to})
			}
		}
		for _, p := range c.Points {
			add(lo, math.Nextafter(p, math.Inf(-1)))
			add(p, p)
			lo = math.Nextafter(p, math.Inf(1))
		}
		add(lo, hi)
	}
	if c.Nullable {
		d = append(d, values{lo: math.NaN(), empty: true})
	}
	x.domains[column] = d
	return d
}

// from reports whether a valid row meets a condition.
func (x *search) from(pin part) bool {
	// The columns that constraints connect to it, directly or indirectly, nearest first.
	columns := []int{pin.column}
	for i := 0; i < len(columns); i++ {
		x.steps += len(x.about[columns[i]])
		for _, c := range x.about[columns[i]] {
			for _, column := range c.Columns {
				if !slices.Contains(columns, column) {
					columns = append(columns, column)
				}
			}
		}
	}
	row := make(map[int]values, len(columns))
	var try func(at int) bool
	try = func(at int) bool {
		if at == len(columns) {
			return true
		}
		column := columns[at]
		for _, v := range x.domain(column) {
			if at == 0 && pin.any != nil && !pin.has(v.lo) {
				continue
			}
			if x.steps += len(row) + len(x.about[column]) + len(x.orders); x.steps > maxSearch {
				return false
			}
			if row[column] = v; x.possible(row, column) && try(at+1) {
				return true
			}
		}
		delete(row, column)
		return false
	}
	return try(0)
}

// possible reports whether values of some columns can be valid after one column was set.
func (x *search) possible(row map[int]values, set int) bool {
	for column, v := range row {
		x.cells[column] = v.lo
	}
	for _, c := range x.about[set] {
		if _, is := c.rule.(*order); is {
			continue
		}
		there := 0
		for _, column := range c.Columns {
			if _, has := row[column]; has {
				there++
			}
		}
		if there == len(c.Columns) && c.breaks(x.cells) {
			return false
		}
	}
	return x.fits(row)
}

// fits reports whether numbers within parts of their ranges can satisfy all orders. It raises each number to the
// least required value; if that does not end there is a cycle.
func (x *search) fits(row map[int]values) bool {
	cells := x.cells
	for range 2*len(row) + 1 { // twice, because whole numbers are rounded up again
		raised := false
		for _, r := range x.orders {
			_, has := row[r.first]
			second, hasToo := row[r.second]
			if !has || !hasToo || !r.breaks(cells) {
				continue
			}
			if cells[r.second] = r.least(cells[r.first]); cells[r.second] > second.hi {
				return false
			}
			raised = true
		}
		if !raised {
			return true
		}
	}
	return false
}
