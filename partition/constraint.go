package partition

import (
	"fmt"
	"math"
	"slices"
)

// Constraint is a rule of the schema that no row breaks. Constraints are public knowledge, as
// bounds are.
type Constraint struct {
	// Columns are those that it is about, each once.
	Columns []int
	move    bool // a row that breaks it is moved
	rule
}

// rule says which rows break a constraint. Cells are a row's.
type rule interface {
	breaks(cells []float64) bool
	// moved changes a cell so that the row does not break the rule, where it can.
	moved(cells []float64)
	// best is the value from lo to hi of a column, both among its values, that rows break the rule
	// least with; lo is not empty.
	best(column int, lo, hi float64) float64
	// pins are conditions that rows must be able to meet.
	pins() []part
}

// Breaks says whether a row breaks the constraint.
func (c *Constraint) Breaks(cells []float64) bool { return c.breaks(cells) }

// Best is the value of a column between two of its values, both included, with which rows break the
// constraint least. The schema names no number between the two, unless they are the same.
func (c *Constraint) Best(column int, lo, hi float64) float64 { return c.best(column, lo, hi) }

// Constraints are those of the schema. No row breaks them.
func (s *Schema) Constraints() []Constraint { return s.constraints }

// Broken is the number, from 1, of the first constraint that a row breaks; 0 for none.
func (s *Schema) Broken(cells []float64) int {
	for i := range s.constraints {
		if s.constraints[i].breaks(cells) {
			return i + 1
		}
	}
	return 0
}

// Settle moves a row as the constraints that it breaks say, and returns a fault where it breaks one
// all the same.
func (s *Schema) Settle(cells []float64) *CellFault {
	s.Move(cells, false)
	return brokenFault(s.Broken(cells))
}

// Move moves a row as the constraints that it breaks say. All of them do as if they had `broken: move`, where
// that says where to, if always is set: a row that was drawn is nobody's.
func (s *Schema) Move(cells []float64, always bool) {
	for i := range s.constraints {
		if c := &s.constraints[i]; (c.move || always) && c.breaks(cells) {
			c.moved(cells)
		}
	}
}

// brokenFault is the fault of a row that breaks a constraint, nil for number 0.
func brokenFault(number int) *CellFault {
	if number == 0 {
		return nil
	}
	return &CellFault{fmt.Sprintf("the row breaks constraint %d of the schema", number),
		"correct the row, or give the constraint broken: move"}
}

// values is a set of values of a column: cells from lo to hi, or the empty one, where lo is NaN.
type values struct {
	lo, hi float64
	empty  bool
}

func (v values) has(cell float64) bool {
	if math.IsNaN(cell) {
		return v.empty
	}
	return !v.empty && cell >= v.lo && cell <= v.hi
}

// part is a condition on a column: that its cell is in one of some sets.
type part struct {
	column int
	any    []values
}

func (p *part) has(cell float64) bool {
	return slices.ContainsFunc(p.any, func(v values) bool { return v.has(cell) })
}

// each has a part for each of its sets.
func (p *part) each() (all []part) {
	for _, v := range p.any {
		all = append(all, part{p.column, []values{v}})
	}
	return all
}

// implies is broken by rows that meet all of its conditions and not the one that follows; without
// one by all rows that meet the conditions.
type implies struct {
	when []part
	then *part
}

func (r *implies) breaks(cells []float64) bool {
	for i := range r.when {
		if !r.when[i].has(cells[r.when[i].column]) {
			return false
		}
	}
	return r.then == nil || !r.then.has(cells[r.then.column])
}

func (r *implies) moved(cells []float64) {
	if r.then != nil {
		cells[r.then.column] = r.then.any[0].lo
	}
}

func (*implies) best(_ int, lo, _ float64) float64 { return lo }

func (r *implies) pins() (all []part) {
	for i := range r.when {
		all = append(all, r.when[i].each()...)
	}
	return all
}

// follows is broken by rows whose value of a column is listed and whose value of the other is not
// the listed one.
type follows struct {
	from, column int
	as           map[float64]float64 // by key
	listed       []part
}

// key is a cell as the key of a map.
func key(cell float64) float64 {
	if math.IsNaN(cell) {
		return math.Inf(1)
	}
	return cell
}

func (r *follows) breaks(cells []float64) bool {
	want, listed := r.as[key(cells[r.from])]
	return listed && key(cells[r.column]) != key(want)
}

func (r *follows) moved(cells []float64)           { cells[r.column] = r.as[key(cells[r.from])] }
func (*follows) best(_ int, lo, _ float64) float64 { return lo }
func (r *follows) pins() []part                    { return r.listed }

// order is broken by rows whose first number is above the second or, where it is strict, not below
// it. Rows where one of them is empty do not break it.
type order struct {
	first, second int
	strict        bool
	whole         bool // the second one is an integer
	most          float64
	dates         *dateOrder // nil where cells compare as they are
}

func (r *order) breaks(cells []float64) bool {
	a, b := cells[r.first], cells[r.second]
	if r.dates != nil {
		a, b = r.dates.common(r.dates.first, a), r.dates.common(r.dates.second, b)
	}
	return a > b || r.strict && a == b
}

// least is the smallest value of the second number with a value of the first.
func (r *order) least(a float64) float64 {
	switch {
	case r.dates != nil:
		return r.dates.least(a, r.strict)
	case r.strict && r.whole:
		return math.Floor(a) + 1
	case r.strict:
		return math.Nextafter(a, math.Inf(1))
	case r.whole:
		return math.Ceil(a)
	default:
		return a
	}
}

func (r *order) moved(cells []float64) {
	if b := r.least(cells[r.first]); b <= r.most {
		cells[r.second] = b
	}
}

func (r *order) best(column int, lo, hi float64) float64 {
	if column == r.first {
		return lo
	}
	return hi
}

func (*order) pins() []part { return nil }

// dateOrder compares dates that are counted from different days, or in different units: by the coarser unit, since
// nothing says where in it the coarser date is.
type dateOrder struct{ first, second, coarser *dateCells }

// newDateOrder is nil where cells compare as they are.
func newDateOrder(first, second *dateCells) *dateOrder {
	o := &dateOrder{first, second, first}
	if second.resolution.Coarser(first.resolution) {
		o.coarser = second
	}
	if first.resolution == second.resolution && first.lower == second.lower {
		return nil
	}
	return o
}

// common counts a cell in the coarser unit; an empty one stays empty.
func (o *dateOrder) common(of *dateCells, cell float64) float64 {
	if math.IsNaN(cell) {
		return cell
	}
	return float64(o.coarser.resolution.Count(o.coarser.lower, of.start(cell)))
}

// least is the smallest cell of the second column with a cell of the first.
func (o *dateOrder) least(cell float64, strict bool) float64 {
	units := o.common(o.first, cell)
	if strict {
		units++
	}
	from := o.coarser.start(units)
	least := float64(o.second.resolution.Count(o.second.lower, from))
	if o.second.start(least) < from {
		least++
	}
	return max(least, 0)
}
