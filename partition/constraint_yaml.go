package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

const (
	maxConstraints = 256
	// maxConstrained bounds the columns of a constraint, because models have a table over all of them.
	maxConstrained = 4
	// maxListed bounds the values of a list, and those that another column follows from.
	maxListed = 1024
)

// constraintFile is a constraint as written. It is one of: if and then; never; less; at_most; or column, follows and
// as.
type constraintFile struct {
	// If is the condition under which `then` must hold.
	If conditions `yaml:"if"`
	// Then is the condition that a row must meet if it meets all of `if`.
	Then conditions `yaml:"then"`
	// Never is a condition that no row meets.
	Never conditions `yaml:"never"`
	// Less are two columns of numbers or dates: the first value is below the second.
	Less []string `yaml:"less"`
	// AtMost are two columns of numbers or dates: the first value is not above the second.
	AtMost []string `yaml:"at_most"`
	// Column is the column that follows from `follows`.
	Column string `yaml:"column"`
	// Follows is the column that determines `column`.
	Follows string `yaml:"follows"`
	// As is the value of `column` for each listed value of `follows`; for other values `column` may have any.
	As conditions `yaml:"as"`
	// Broken is what a node does with a row that breaks the constraint: `refuse` ends its start with an error, `move`
	// changes the row. Default: `refuse`.
	Broken string `yaml:"broken"`
}

// conditions maps columns to values, in order; a column has one value or a list.
type conditions []condition

type condition struct {
	name   string
	values []string
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (c *conditions) UnmarshalYAML(node ast.Node) error {
	var fields []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		fields = n.Values
	case *ast.MappingValueNode:
		fields = []*ast.MappingValueNode{n}
	default:
		return errors.New("expected a mapping of columns to values")
	}
	for _, f := range fields {
		one := condition{name: f.Key.GetToken().Value}
		nodes := []ast.Node{f.Value}
		if list, ok := f.Value.(*ast.SequenceNode); ok {
			nodes = list.Values
		}
		for _, n := range nodes {
			var value scalar
			if err := value.UnmarshalYAML(n); err != nil {
				return err
			}
			one.values = append(one.values, value.text)
		}
		if slices.ContainsFunc(*c, func(o condition) bool { return o.name == one.name }) {
			return fmt.Errorf("%q is listed twice", one.name)
		}
		*c = append(*c, one)
	}
	return nil
}

// resolveConstraints parses the constraints, and refuses contradictory ones.
func (s *Schema) resolveConstraints(f *schemaFile) *schemaProblem {
	const path = "$.constraints"
	if len(f.Constraints) > maxConstraints {
		return bad(path, fmt.Sprintf("%d constraints; the maximum is %d", len(f.Constraints), maxConstraints),
			"use fewer")
	}
	if s.Format == "idx" && len(f.Constraints) > 0 {
		return bad(path, "images have no constraints", "remove them")
	}
	for i := range f.Constraints {
		c, err := s.constraint(&f.Constraints[i])
		if err != nil {
			return bad(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("constraint %d %v", i+1, err), "correct it")
		}
		s.constraints = append(s.constraints, *c)
	}
	if number, problem := s.contradiction(); problem != "" {
		return bad(fmt.Sprintf("%s[%d]", path, number), problem, "correct or remove one")
	}
	return nil
}

// constraint parses one constraint. The caller prefixes errors with its number.
func (s *Schema) constraint(f *constraintFile) (*Constraint, error) {
	sorts := 0
	for _, given := range []bool{f.If != nil || f.Then != nil, f.Never != nil, f.Less != nil, f.AtMost != nil,
		f.Column != "" || f.Follows != "" || f.As != nil} {
		if given {
			sorts++
		}
	}
	if sorts != 1 {
		return nil, errors.New("must be one of: if and then; never; less; at_most; column, follows and as")
	}
	c := &Constraint{move: f.Broken == "move"}
	if f.Broken != "" && f.Broken != "move" && f.Broken != "refuse" {
		return nil, fmt.Errorf("has broken: %q; use refuse or move", f.Broken)
	}
	var err error
	switch {
	case f.Less != nil || f.AtMost != nil:
		c.rule, err = s.orderRule(append(slices.Clone(f.Less), f.AtMost...), f.Less != nil, c)
	case f.Column != "" || f.Follows != "" || f.As != nil:
		c.rule, err = s.followsRule(f, c)
	default:
		c.rule, err = s.impliesRule(f, c)
	}
	if err != nil {
		return nil, err
	}
	if why := c.unmovable(); c.move && why != "" {
		return nil, fmt.Errorf("cannot use broken: move, because %s", why)
	}
	if len(c.Columns) < 2 || len(c.Columns) > maxConstrained {
		return nil, fmt.Errorf("is about %d columns; use 2 to %d", len(c.Columns), maxConstrained)
	}
	slices.Sort(c.Columns)
	if len(slices.Compact(slices.Clone(c.Columns))) < len(c.Columns) {
		return nil, errors.New("uses a column twice")
	}
	return c, nil
}

// constrained is the index of a column that constraints may name.
func (s *Schema) constrained(name string) (int, error) {
	at := s.ColumnIndex(name)
	switch {
	case at < 0:
		return 0, fmt.Errorf("uses the column %q, which does not exist", name)
	case at == s.unit:
		return 0, fmt.Errorf("uses the unit column %q, which is not learned", name)
	case !s.Columns[at].HasCell():
		return 0, fmt.Errorf("uses the identifier %q, which is not learned", name)
	}
	return at, nil
}

func (s *Schema) impliesRule(f *constraintFile, c *Constraint) (rule, error) {
	r := &implies{}
	for _, condition := range append(slices.Clone(f.If), f.Never...) {
		p, err := s.part(condition)
		if err != nil {
			return nil, err
		}
		r.when, c.Columns = append(r.when, *p), append(c.Columns, p.column)
	}
	if f.Never != nil {
		return r, nil
	}
	if len(f.If) == 0 || len(f.Then) != 1 {
		return nil, errors.New("needs columns under if and one under then")
	}
	then, err := s.part(f.Then[0])
	if err != nil {
		return nil, err
	}
	r.then, c.Columns = then, append(c.Columns, then.column)
	return r, nil
}

func (s *Schema) followsRule(f *constraintFile, c *Constraint) (rule, error) {
	if len(f.As) == 0 || len(f.As) > maxListed {
		return nil, fmt.Errorf("needs 1 to %d values under as", maxListed)
	}
	from, err := s.constrained(f.Follows)
	if err != nil {
		return nil, err
	}
	column, err := s.constrained(f.Column)
	if err != nil {
		return nil, err
	}
	r := &follows{from: from, column: column, as: map[float64]float64{}}
	for _, entry := range f.As {
		if len(entry.values) != 1 {
			return nil, fmt.Errorf("has %d values for one of %q; list one", len(entry.values), f.Follows)
		}
		of, err := s.cell(from, entry.name)
		if err != nil {
			return nil, err
		}
		to, err := s.cell(column, entry.values[0])
		if err != nil {
			return nil, err
		}
		if _, twice := r.as[key(of)]; twice {
			return nil, fmt.Errorf("has a value of %q twice", f.Follows)
		}
		r.as[key(of)] = to
		r.listed = append(r.listed, part{from, []values{{of, of, math.IsNaN(of)}}})
	}
	c.Columns = []int{from, column}
	return r, nil
}

func (s *Schema) orderRule(names []string, strict bool, c *Constraint) (rule, error) {
	if len(names) != 2 {
		return nil, errors.New("needs two columns, the smaller one first")
	}
	for _, name := range names {
		at, err := s.constrained(name)
		if err != nil {
			return nil, err
		}
		if k := s.Columns[at].Kind; k != Integer && k != Continuous {
			return nil, fmt.Errorf("compares the column %q, which is not a number", name)
		}
		c.Columns = append(c.Columns, at)
	}
	first, second := &s.Columns[c.Columns[0]], &s.Columns[c.Columns[1]]
	r := &order{first: c.Columns[0], second: c.Columns[1], strict: strict, whole: second.Kind == Integer,
		bothWhole: first.Kind == Integer && second.Kind == Integer}
	firstDate, isDate := first.spelled.(*dateCells)
	secondDate, isToo := second.spelled.(*dateCells)
	switch {
	case isDate != isToo:
		return nil, fmt.Errorf("compares a date with a number, in the columns %q and %q", first.Name, second.Name)
	case isDate:
		r.dates = newDateOrder(firstDate, secondDate)
	}
	_, r.most = second.Range()
	return r, nil
}

// part parses a condition.
func (s *Schema) part(f condition) (*part, error) {
	at, err := s.constrained(f.name)
	if err != nil {
		return nil, err
	}
	if len(f.values) == 0 || len(f.values) > maxListed {
		return nil, fmt.Errorf("needs 1 to %d values of %q", maxListed, f.name)
	}
	p := &part{column: at}
	for _, text := range f.values {
		v, err := s.values(at, text)
		if err != nil {
			return nil, err
		}
		p.any = append(p.any, v)
	}
	return p, nil
}

// values parses a value of a column or, for a number, a range such as <18.
func (s *Schema) values(at int, text string) (values, error) {
	c := &s.Columns[at]
	number := strings.TrimLeft(text, "<>=")
	relation := text[:len(text)-len(number)]
	if relation == "" || c.Kind == Categorical || c.Kind == Binary {
		v, err := s.cell(at, text)
		return values{v, v, math.IsNaN(v)}, err
	}
	if number == "" && c.spelled == nil {
		return values{}, fmt.Errorf("has a range of %q without a number", c.Name)
	}
	v, err := s.cell(at, number)
	if err != nil {
		return values{}, err
	}
	if math.IsNaN(v) {
		return values{}, fmt.Errorf("has a range of %q without a value", c.Name)
	}
	lo, hi := c.Range()
	switch relation {
	case "<":
		hi = math.Nextafter(v, math.Inf(-1))
	case "<=":
		hi = v
	case ">":
		lo = math.Nextafter(v, math.Inf(1))
	case ">=":
		lo = v
	default:
		return values{}, fmt.Errorf("has a range of %q that does not start with <, <=, > or >=", c.Name)
	}
	if c.Kind == Integer {
		lo, hi = math.Ceil(lo), math.Floor(hi)
	}
	if lo > hi {
		return values{}, fmt.Errorf("has a range of %q without a value of the column", c.Name)
	}
	return values{lo: lo, hi: hi}, nil
}

// cell parses a value of a column without clipping. Numbers become points of the column.
func (s *Schema) cell(at int, text string) (float64, error) {
	c, parse := &s.Columns[at], ParseNumber
	number := text != "" && c.Kind != Categorical && c.Kind != Binary
	if !number || c.spelled != nil {
		parse = c.ParseValue
	}
	v, fault := parse(text)
	if fault != nil {
		return 0, fmt.Errorf("has the value %q of %q: %s", text, c.Name, fault.Problem)
	}
	if number {
		if wrong := c.addPoint(v); wrong != "" {
			return 0, fmt.Errorf("has a number of %q that %s", c.Name, wrong)
		}
	}
	return v, nil
}
