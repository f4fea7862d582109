package partition

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Constraint is a rule of the schema that no row may break. Constraints are public knowledge, like bounds.
type Constraint struct {
	// Columns are the columns of the constraint, each once.
	Columns []int
	move    bool // a row that breaks it is moved
	rule
}

// rule decides which rows break a constraint. cells are the cells of a row.
type rule interface {
	breaks(cells []float64) bool
	// moved changes a cell, if possible, so that the row no longer breaks the rule.
	moved(cells []float64)
	// unmovable says why a schema may not have the rule with `broken: move`, "" if it may.
	unmovable() string
	// best is the value of a column in [lo, hi] with which rows break the rule least. Both ends are valid values, and
	// lo is not empty.
	best(column int, lo, hi float64) float64
	// pins are conditions that some row must be able to meet.
	pins() []part
	// said is the rule in its JSON form.
	said() said
}

// Breaks reports whether a row breaks the constraint.
func (c *Constraint) Breaks(cells []float64) bool { return c.breaks(cells) }

// Order returns the columns of a constraint on the order of two numbers or dates, and a function for the smallest
// second value that a first one allows. It returns false for other constraints.
func (c *Constraint) Order() (first, second int, least func(first float64) float64, ok bool) {
	r, ok := c.rule.(*order)
	if !ok {
		return 0, 0, nil, false
	}
	return r.first, r.second, r.least, true
}

// Best is the value of a column in [lo, hi] with which rows break the constraint least. No number of the schema lies
// between the two, unless they are equal.
func (c *Constraint) Best(column int, lo, hi float64) float64 { return c.best(column, lo, hi) }

// Constraints are those of the schema. No row breaks them.
func (s *Schema) Constraints() []Constraint { return s.constraints }

// Broken is the number, from 1, of the first constraint that a row breaks, or 0.
func (s *Schema) Broken(cells []float64) int {
	for i := range s.constraints {
		if s.constraints[i].breaks(cells) {
			return i + 1
		}
	}
	return 0
}

// Settle moves a row as its broken constraints say, and returns a fault if it still breaks one.
func (s *Schema) Settle(cells []float64) *CellFault {
	s.Move(cells, false)
	return s.brokenFault(s.Broken(cells))
}

// Move moves a row as its broken constraints say. With always, every constraint that can move a row does so, as with
// `broken: move`: a drawn row belongs to nobody.
func (s *Schema) Move(cells []float64, always bool) {
	for i := range s.constraints {
		if c := &s.constraints[i]; (c.move || always) && c.breaks(cells) {
			c.moved(cells)
		}
	}
}

// brokenFault is the fault of a row that breaks a constraint, or nil for number 0.
func (s *Schema) brokenFault(number int) *CellFault {
	if number == 0 {
		return nil
	}
	fix := "correct the constraint"
	if c := &s.constraints[number-1]; !c.move && c.unmovable() == "" {
		fix = "give the constraint broken: move"
	}
	return &CellFault{fmt.Sprintf("the row breaks constraint %d of the schema", number), "correct the row", fix}
}

// MarshalJSON writes the constraint with column indexes and cell values. null is the empty cell.
func (c Constraint) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Move bool `json:"move,omitempty"`
		said
	}{c.move, c.said()})
}

// said is the JSON form of a rule: When and, unless no row may meet those, Then; or Follows; or Order.
type said struct {
	When    []saidPart   `json:"when,omitempty"`
	Then    *saidPart    `json:"then,omitempty"`
	Follows *saidFollows `json:"follows,omitempty"`
	Order   *saidOrder   `json:"order,omitempty"`
}

// saidPart has the sets of a [part], each from its lowest to its highest cell; nil is the empty cell.
type saidPart struct {
	Column int           `json:"column"`
	Any    []*[2]float64 `json:"any"`
}

type saidFollows struct {
	From   int           `json:"from"`
	Column int           `json:"column"`
	As     [][2]*float64 `json:"as"` // pairs of a cell of From and a cell of Column
}

type saidOrder struct {
	First  int  `json:"first"`
	Second int  `json:"second"`
	Strict bool `json:"strict"`
}

// values is a set of values of a column: the cells in [lo, hi], or the empty cell if lo is NaN.
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

// part is a condition on a column: its cell is in one of some sets.
type part struct {
	column int
	any    []values
}

func (p *part) has(cell float64) bool {
	return slices.ContainsFunc(p.any, func(v values) bool { return v.has(cell) })
}

// each returns one part per set.
func (p *part) each() (all []part) {
	for _, v := range p.any {
		all = append(all, part{p.column, []values{v}})
	}
	return all
}

func (p *part) said() *saidPart {
	if p == nil {
		return nil
	}
	out := &saidPart{Column: p.column}
	for _, v := range p.any {
		if v.empty {
			out.Any = append(out.Any, nil)
		} else {
			out.Any = append(out.Any, &[2]float64{v.lo, v.hi})
		}
	}
	return out
}

// implies is broken by rows that meet all of its conditions but not its conclusion. Without a conclusion, all rows
// that meet the conditions break it.
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

func (r *implies) unmovable() string {
	switch {
	case r.then == nil:
		return "never has no target; use if and then"
	case !r.then.any[0].empty && r.then.any[0].lo != r.then.any[0].hi:
		return "the first value under then is a range"
	}
	return ""
}

func (*implies) best(_ int, lo, _ float64) float64 { return lo }

func (r *implies) pins() (all []part) {
	for i := range r.when {
		all = append(all, r.when[i].each()...)
	}
	return all
}

func (r *implies) said() said {
	out := said{Then: r.then.said()}
	for i := range r.when {
		out.When = append(out.When, *r.when[i].said())
	}
	return out
}

// follows is broken by rows whose value of a column is listed, but whose value of the other column differs from the
// listed one.
type follows struct {
	from, column int
	as           map[float64]float64 // by key
	listed       []part
}

// key is a cell in its form as a map key.
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
func (*follows) unmovable() string                 { return "" }
func (*follows) best(_ int, lo, _ float64) float64 { return lo }
func (r *follows) pins() []part                    { return r.listed }

func (r *follows) said() said {
	cell := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	out := &saidFollows{From: r.from, Column: r.column}
	for _, p := range r.listed { // in the order of the schema
		from := p.any[0].lo
		out.As = append(out.As, [2]*float64{cell(from), cell(r.as[key(from)])})
	}
	return said{Follows: out}
}

// order is broken by rows whose first number is above the second or, if strict, equal to it. Rows with an empty one
// do not break it.
type order struct {
	first, second int
	strict        bool
	whole         bool // the second one is an integer
	bothWhole     bool
	most          float64
	dates         *dateOrder // nil if cells compare directly
}

func (r *order) breaks(cells []float64) bool {
	a, b := cells[r.first], cells[r.second]
	if r.dates != nil {
		a, b = r.dates.common(r.dates.first, a), r.dates.common(r.dates.second, b)
	}
	return a > b || r.strict && a == b
}

// least is the smallest value of the second number that fits a value of the first.
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

func (r *order) said() said { return said{Order: &saidOrder{r.first, r.second, r.strict}} }

func (r *order) moved(cells []float64) {
	if b := r.least(cells[r.first]); b <= r.most {
		cells[r.second] = b
	}
}

func (r *order) unmovable() string {
	if r.strict && !r.bothWhole {
		return "less moves only whole numbers; use at_most, or broken: refuse"
	}
	return ""
}

func (r *order) best(column int, lo, hi float64) float64 {
	if column == r.first {
		return lo
	}
	return hi
}

func (*order) pins() []part { return nil }

// dateOrder compares dates with different start days or units. It uses the coarser unit, because the coarser date may
// be anywhere in it.
type dateOrder struct{ first, second, coarser *dateCells }

// newDateOrder returns nil if cells compare directly.
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

// common converts a cell to the coarser unit; an empty cell stays empty.
func (o *dateOrder) common(of *dateCells, cell float64) float64 {
	if math.IsNaN(cell) {
		return cell
	}
	return float64(o.coarser.resolution.Count(o.coarser.lower, of.start(cell)))
}

// least is the smallest cell of the second column that fits a cell of the first.
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
