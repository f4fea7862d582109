package partition

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// maxColumns bounds what `repeat` can ask for: 256 x 256 pixels.
	maxColumns = 1 << 16
	// MaxExact is the largest whole number up to which float64 holds all.
	MaxExact = 1 << 53
)

// schemaProblem is a finding with the YAML path it is about.
type schemaProblem struct {
	path, column string
	problem, fix string
}

// buildSchema checks what YAML cannot and resolves label, roles and repeats.
func buildSchema(f *schemaFile) (*Schema, *schemaProblem) {
	s := &Schema{Name: f.Name, Task: f.Task, Label: f.Label, Format: f.Format, Image: f.Image,
		Files: f.Files, Notes: f.Notes, positive: -1, label: -1, site: -1, unit: -1}
	if len(f.Columns) == 0 {
		return nil, &schemaProblem{path: "$.columns", problem: "there are no columns", fix: "list them under columns:"}
	}
	seen := make(map[string]bool)
	for i := range f.Columns {
		path := fmt.Sprintf("$.columns[%d]", i)
		in := &f.Columns[i]
		c, bad := buildColumn(in)
		if bad != nil {
			bad.column = in.Name
			if bad.path == "" {
				bad.path = path
			} else {
				bad.path = path + "." + bad.path
			}
			return nil, bad
		}
		copies, bad := repeatColumn(in, c, len(s.Columns))
		if bad != nil {
			bad.path, bad.column = path+".repeat", in.Name
			return nil, bad
		}
		s.Columns = slices.Grow(s.Columns, len(copies))
		for _, c := range copies {
			if seen[c.Name] {
				return nil, &schemaProblem{path: path, column: c.Name, problem: "this column is listed twice",
					fix: "remove or rename one"}
			}
			seen[c.Name] = true
			s.Columns = append(s.Columns, c)
		}
	}
	for _, check := range []func(*schemaFile) *schemaProblem{s.resolveRoles, s.resolveLabel, s.resolveTask,
		s.resolveFormat, s.resolveConstraints} {
		if bad := check(f); bad != nil {
			return nil, bad
		}
	}
	return s, nil
}

func buildColumn(in *columnFile) (Column, *schemaProblem) {
	c := Column{Name: in.Name, Kind: ColumnKind(in.Kind), Nullable: in.Nullable, Role: Role(in.Role), Doc: in.Doc}
	if in.Name == "" {
		return c, &schemaProblem{problem: "a column has no name", fix: "give it name:"}
	}
	if strings.ContainsAny(in.Name, "\r\n") || strings.TrimSpace(in.Name) != in.Name {
		return c, &schemaProblem{path: "name", problem: "a column's name has a line break or spaces around it",
			fix: "rename it"}
	}
	if c.Role != RoleNone && c.Role != RoleSite && c.Role != RoleUnit {
		return c, &schemaProblem{path: "role", problem: fmt.Sprintf("unknown role %q", in.Role),
			fix: "use site or unit, or leave it out"}
	}
	if c.Role == RoleUnit && (in.Kind == "" || c.Kind == Categorical && in.Categories == nil) {
		c.Kind = Text
	}
	switch c.Kind {
	case Continuous, Integer:
		return c, buildNumber(&c, in)
	case Binary:
		return c, buildBinary(&c, in)
	case Categorical:
		return c, buildCategorical(&c, in)
	case Text:
		if c.Role != RoleUnit {
			return c, &schemaProblem{path: "kind", problem: "only a column of role unit can be text",
				fix: "use categorical and list the categories"}
		}
		return c, buildText(in)
	case "":
		return c, &schemaProblem{problem: "the column has no kind",
			fix: "use continuous, integer, categorical or binary"}
	default:
		return c, &schemaProblem{path: "kind", problem: fmt.Sprintf("unknown kind %q", in.Kind),
			fix: "use continuous, integer, categorical or binary"}
	}
}

func buildNumber(c *Column, in *columnFile) *schemaProblem {
	if in.Categories != nil || in.Names != nil {
		return misplaced("categories", c.Kind)
	}
	if in.Lower == nil || in.Upper == nil {
		return &schemaProblem{problem: "a number needs public bounds",
			fix: "give lower: and upper:, from knowledge of the field and not from the rows"}
	}
	c.Lower, c.Upper = *in.Lower+0, *in.Upper+0
	if !finite(c.Lower) || !finite(c.Upper) || !finite(c.Upper-c.Lower) || c.Lower >= c.Upper {
		return &schemaProblem{path: "lower", problem: "lower must be less than upper, both finite",
			fix: "correct the bounds"}
	}
	if in.Clip != nil {
		if len(in.Clip) != 2 || !(in.Clip[0] < in.Clip[1]) || in.Clip[0] < c.Lower || in.Clip[1] > c.Upper {
			return &schemaProblem{path: "clip", problem: "clip must be [lo, hi] with lo less than hi," +
				" inside lower and upper", fix: "correct the range"}
		}
		c.Clip = &[2]float64{in.Clip[0] + 0, in.Clip[1] + 0}
	}
	lo, hi := c.Range()
	if c.Kind == Integer {
		for _, edge := range []float64{c.Lower, c.Upper, lo, hi} {
			if edge != math.Trunc(edge) || math.Abs(edge) > MaxExact {
				return &schemaProblem{path: "lower", problem: "the bounds and clip of an integer must be whole" +
					" numbers up to 2^53", fix: "round them outward"}
			}
		}
	}
	switch c.Scale = Scale(in.Scale); c.Scale {
	case "":
		c.Scale = Linear
	case Linear:
	case Log:
		if lo < 0 {
			return &schemaProblem{path: "scale", problem: "scale: log needs a range without negative numbers",
				fix: "raise lower or clip to 0, or use scale: linear"}
		}
	default:
		return &schemaProblem{path: "scale", problem: fmt.Sprintf("unknown scale %q", in.Scale),
			fix: "use linear or log"}
	}
	return c.addSpikes(in.Spikes)
}

func buildBinary(c *Column, in *columnFile) *schemaProblem {
	if in.Categories != nil || in.Names != nil {
		return misplaced("categories", c.Kind)
	}
	if in.Clip != nil {
		return misplaced("clip", c.Kind)
	}
	if in.Spikes != nil {
		return misplaced("spikes", c.Kind)
	}
	if in.Scale != "" {
		return misplaced("scale", c.Kind)
	}
	if in.Lower != nil && *in.Lower != 0 || in.Upper != nil && *in.Upper != 1 {
		return &schemaProblem{path: "lower", problem: "a binary column holds 0 and 1",
			fix: "use lower: 0 and upper: 1, or kind: integer"}
	}
	c.Lower, c.Upper = 0, 1
	return nil
}

func buildCategorical(c *Column, in *columnFile) *schemaProblem {
	if bad := noNumberFields(in, c.Kind); bad != nil {
		return bad
	}
	if len(in.Categories) == 0 {
		return &schemaProblem{problem: "a categorical column needs its categories",
			fix: "list all values it may take under categories:, from public knowledge"}
	}
	c.index = make(map[string]int, len(in.Categories))
	for i, category := range in.Categories {
		path := fmt.Sprintf("categories[%d]", i)
		if category.text == "" {
			return &schemaProblem{path: path, problem: "a category is empty",
				fix: "write it in quotes, or use nullable: true for empty cells"}
		}
		if strings.ContainsAny(category.text, "\r\n") {
			return &schemaProblem{path: path, problem: "a category has a line break",
				fix: "rename it in schema and data"}
		}
		if _, twice := c.index[category.text]; twice {
			return &schemaProblem{path: path, problem: fmt.Sprintf("category %q is listed twice", category.text),
				fix: "remove one"}
		}
		c.index[category.text] = i
		c.Categories = append(c.Categories, category.text)
	}
	if in.Names != nil && len(in.Names) != len(in.Categories) {
		return &schemaProblem{path: "names", problem: "names must have one entry per category",
			fix: "complete the list or remove it"}
	}
	for _, name := range in.Names {
		c.Names = append(c.Names, name.text)
	}
	return nil
}

func buildText(in *columnFile) *schemaProblem {
	if in.Names != nil || in.Categories != nil {
		return misplaced("categories", Text)
	}
	return noNumberFields(in, Text)
}

func noNumberFields(in *columnFile, kind ColumnKind) *schemaProblem {
	switch {
	case in.Lower != nil:
		return misplaced("lower", kind)
	case in.Upper != nil:
		return misplaced("upper", kind)
	case in.Clip != nil:
		return misplaced("clip", kind)
	case in.Scale != "":
		return misplaced("scale", kind)
	case in.Spikes != nil:
		return misplaced("spikes", kind)
	}
	return nil
}

func misplaced(field string, kind ColumnKind) *schemaProblem {
	return &schemaProblem{path: field, problem: fmt.Sprintf("%s does not belong to kind %s", field, kind),
		fix: "remove it or correct the kind"}
}

// repeatColumn writes out `repeat: n` as n columns; have is how many there are.
func repeatColumn(in *columnFile, c Column, have int) ([]Column, *schemaProblem) {
	if in.Repeat == nil {
		if have >= maxColumns {
			return nil, &schemaProblem{problem: fmt.Sprintf("more than %d columns", maxColumns), fix: "use fewer"}
		}
		return []Column{c}, nil
	}
	n := *in.Repeat
	if n < 1 || n > maxColumns-have {
		return nil, &schemaProblem{problem: fmt.Sprintf("repeat must be from 1 to %d, all columns together",
			maxColumns), fix: "correct the number"}
	}
	if c.Role != RoleNone {
		return nil, &schemaProblem{problem: "a column with a role cannot repeat", fix: "remove repeat"}
	}
	copies := make([]Column, n)
	for i := range copies {
		copies[i] = c
		copies[i].Name = fmt.Sprintf("%s_%d", c.Name, i)
	}
	return copies, nil
}

func (s *Schema) resolveRoles(*schemaFile) *schemaProblem {
	for i := range s.Columns {
		c := &s.Columns[i]
		var at *int
		switch c.Role {
		case RoleSite:
			at = &s.site
			if c.Kind != Categorical {
				return &schemaProblem{column: c.Name, problem: "the column of role site must be categorical",
					fix: "list the sites under categories:"}
			}
		case RoleUnit:
			at = &s.unit
			if c.Name == UnitRecord {
				return &schemaProblem{column: c.Name, problem: "a unit column cannot be called record," +
					" which means that every row is a unit", fix: "rename it"}
			}
			if c.Clip != nil {
				return &schemaProblem{column: c.Name, problem: "a unit column cannot have clip, which would join units",
					fix: "remove clip"}
			}
		default:
			continue
		}
		if *at >= 0 {
			return &schemaProblem{column: c.Name, problem: fmt.Sprintf("a second column of role %s", c.Role),
				fix: "keep one"}
		}
		if c.Nullable {
			return &schemaProblem{column: c.Name, problem: fmt.Sprintf("a column of role %s cannot be nullable",
				c.Role), fix: "remove nullable"}
		}
		*at = i
	}
	return nil
}

func (s *Schema) resolveLabel(f *schemaFile) *schemaProblem {
	if s.Label == "" {
		if f.Positive.set {
			return &schemaProblem{path: "$.positive", problem: "positive is given but no label",
				fix: "name the label's column under label:"}
		}
		return nil
	}
	s.label = s.ColumnIndex(s.Label)
	if s.label < 0 {
		return &schemaProblem{path: "$.label", problem: fmt.Sprintf("the label %q is not one of the columns", s.Label),
			fix: "use the name of a column"}
	}
	c := &s.Columns[s.label]
	if c.Nullable || c.Role != RoleNone {
		return &schemaProblem{path: "$.label", column: c.Name, problem: "the label cannot be nullable or have a role",
			fix: "remove nullable or role, or choose another label"}
	}
	classes := s.Classes()
	if len(classes) == 2 {
		s.positive = 1
	}
	if f.Positive.set {
		s.positive = -1
		for i, class := range classes {
			if class == f.Positive.text {
				s.positive = i
			}
		}
		if s.positive < 0 {
			return &schemaProblem{path: "$.positive", problem: "positive is not a value of the label",
				fix: "use one of its categories, 0 or 1 for a binary label"}
		}
	}
	return nil
}

func (s *Schema) resolveTask(*schemaFile) *schemaProblem {
	classes := len(s.Classes())
	var fits string
	switch {
	case s.label < 0:
		fits = "none"
	case classes == 0:
		fits = "regression"
	case classes == 2:
		fits = "binary"
	default:
		fits = "multiclass"
	}
	switch {
	case s.Task == "":
		s.Task = fits
	case s.Task != fits && !(s.Task == "multiclass" && fits == "binary"):
		return &schemaProblem{path: "$.task", problem: fmt.Sprintf("task %q does not fit the label, which makes it %q",
			s.Task, fits), fix: "correct task or the label's kind"}
	}
	return nil
}

func (s *Schema) resolveFormat(f *schemaFile) *schemaProblem {
	features := 0
	for i := range s.Columns {
		if i != s.label && i != s.unit {
			features++
		}
	}
	if features == 0 {
		return &schemaProblem{path: "$.columns", problem: "there is no column beside label and unit",
			fix: "list the data's columns"}
	}
	switch s.Format {
	case "", "csv":
		s.Format = "csv"
		if s.Image != nil {
			return &schemaProblem{path: "$.image", problem: "image belongs to format idx",
				fix: "add format: idx or remove image"}
		}
	case "idx":
		if s.Image == nil {
			return &schemaProblem{path: "$.format", problem: "format idx needs the images' shape",
				fix: "add image: {height, width, channels}"}
		}
		h, w, n := s.Image.Height, s.Image.Width, s.Image.Channels
		if h < 1 || w < 1 || n < 1 || h > maxColumns || w > maxColumns || n > 4 || h*w*n != features {
			return &schemaProblem{path: "$.image",
				problem: "height x width x channels is not the number of pixel columns", fix: "correct image or repeat"}
		}
		return s.checkImages()
	default:
		return &schemaProblem{path: "$.format", problem: fmt.Sprintf("unknown format %q", s.Format),
			fix: "use csv or idx"}
	}
	return nil
}

// checkImages refuses columns that idx files of unsigned bytes cannot hold.
func (s *Schema) checkImages() *schemaProblem {
	if n := len(s.Classes()); n == 0 || n > maxIDXClasses {
		return &schemaProblem{path: "$.label", problem: fmt.Sprintf("images need a label of 1 to %d classes",
			maxIDXClasses), fix: "name a categorical or binary column under label:"}
	}
	for i := range s.Columns {
		c := &s.Columns[i]
		switch {
		case i == s.label:
		case c.Role != RoleNone:
			return &schemaProblem{column: c.Name, problem: fmt.Sprintf("images have no column of role %s", c.Role),
				fix: "remove it; every image is a record of its own"}
		case c.Kind != Integer || c.Lower != 0 || c.Upper != 255 || c.Clip != nil || c.Nullable:
			return &schemaProblem{column: c.Name, problem: "a pixel of an image is a whole number from 0 to 255",
				fix: "use kind: integer, lower: 0, upper: 255, without clip and nullable"}
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// maxIDXClasses is how many classes a byte can tell apart.
const maxIDXClasses = 256
