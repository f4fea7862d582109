package partition

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxColumns bounds `repeat`: 256 x 256 pixels.
	maxColumns = 1 << 16
	// MaxExact is the bound up to which float64 represents all whole numbers.
	MaxExact = 1 << 53
)

// schemaProblem is a problem with its YAML path.
type schemaProblem struct {
	path, column string
	problem, fix string
}

// bad is a problem at a path; an empty path means the current element.
func bad(path, problem, fix string) *schemaProblem {
	return &schemaProblem{path: path, problem: problem, fix: fix}
}

func (c *Column) bad(problem, fix string) *schemaProblem {
	return &schemaProblem{column: c.Name, problem: problem, fix: fix}
}

// buildSchema checks what YAML cannot and resolves label, roles and repeats. It finds one problem per column and per
// other part, but none that only follows from another.
func buildSchema(f *schemaFile) (s *Schema, wrong []*schemaProblem) {
	s = &Schema{Name: f.Name, Task: f.Task, Label: f.Label, Format: f.Format, Image: f.Image,
		Files: f.Files, Notes: f.Notes, positive: -1, label: -1, site: -1, unit: -1}
	if len(f.Columns) == 0 {
		return nil, []*schemaProblem{bad("$.columns", "there are no columns", "list them under columns:")}
	}
	seen := make(map[string]bool)
	for i := range f.Columns {
		if bad := s.addColumn(&f.Columns[i], fmt.Sprintf("$.columns[%d]", i), seen); bad != nil {
			wrong = append(wrong, bad)
		}
	}
	check := func(checks ...func(*schemaFile) *schemaProblem) {
		for _, check := range checks {
			if bad := check(f); bad != nil {
				wrong = append(wrong, bad)
				return
			}
		}
	}
	if len(wrong) > 0 {
		if s.Label != "" && !seen[s.Label] {
			check(s.resolveLabel)
		}
		return nil, wrong
	}
	check(s.resolveRoles)
	check(s.resolveCSV)
	check(s.resolveLabel, s.resolveTask, s.resolveFormat, s.resolveConstraints)
	return s, wrong
}

// addColumn adds a column, or its repeats, to those seen before.
func (s *Schema) addColumn(in *columnFile, path string, seen map[string]bool) *schemaProblem {
	c, wrong := buildColumn(in)
	if wrong != nil {
		seen[in.Name], s.Columns = true, append(s.Columns, c) // others may refer to it
		wrong.column, wrong.path = in.Name, strings.TrimSuffix(path+"."+wrong.path, ".")
		return wrong
	}
	copies, wrong := repeatColumn(in, c, len(s.Columns))
	if wrong != nil {
		wrong.path, wrong.column = path+".repeat", in.Name
		return wrong
	}
	s.Columns = slices.Grow(s.Columns, len(copies))
	for _, c := range copies {
		if seen[c.Name] {
			return &schemaProblem{path: path, column: c.Name, problem: "this column is listed twice",
				fix: "remove or rename one"}
		}
		seen[c.Name] = true
		s.Columns = append(s.Columns, c)
	}
	return nil
}

func buildColumn(in *columnFile) (Column, *schemaProblem) {
	c := Column{Name: in.Name, Kind: ColumnKind(in.Kind), Nullable: in.Nullable, Role: Role(in.Role), Doc: in.Doc}
	if in.Name == "" {
		return c, bad("", "a column has no name", "give it name:")
	}
	if strings.ContainsAny(in.Name, "\r\n") || strings.TrimSpace(in.Name) != in.Name {
		return c, bad("name", "a column's name has a line break or spaces around it", "rename it")
	}
	if c.Role != RoleNone && c.Role != RoleSite && c.Role != RoleUnit {
		return c, bad("role", fmt.Sprintf("unknown role %q", in.Role), "use site or unit, or leave it out")
	}
	if c.Role == RoleUnit && (in.Kind == "" || c.Kind == Categorical && in.Categories == nil) {
		c.Kind = Text
	}
	c.declared = c.Kind
	build := func(*Column, *columnFile) *schemaProblem { return nil }
	switch c.Kind {
	case Continuous, Integer:
		build = buildNumber
	case Binary:
		build = buildBinary
	case Categorical:
		build = buildCategorical
	case Date, Datetime:
		build = buildDate
	case Code:
		build = buildCode
	case Identifier:
		build = buildIdentifier
	case Text:
		if c.Role != RoleUnit {
			return c, bad("kind", "free text is not learned", "list the column under ignore: to keep it at the site; "+
				"or make categories of it at the site; or use kind: identifier, if it only names the row")
		}
	case "":
		return c, bad("", "the column has no kind", useKind)
	default:
		return c, bad("kind", fmt.Sprintf("unknown kind %q", in.Kind), useKind)
	}
	wrong := misplaced(c.Kind, in)
	if wrong == nil {
		c.Source, wrong = sourceOf(in.Source)
	}
	if wrong == nil {
		wrong = build(&c, in)
	}
	if wrong == nil && c.spelled != nil && c.Role != RoleNone {
		return c, bad("role", fmt.Sprintf("a column of kind %s cannot have a role", c.declared),
			"leave out the kind of a unit column, and make the column of role site categorical")
	}
	return c, wrong
}

const useKind = "use continuous, integer, categorical, binary, date, datetime, code or identifier"

// misplaced finds a field that belongs to columns of other kinds.
func misplaced(kind ColumnKind, in *columnFile) *schemaProblem {
	number, words := kind == Continuous || kind == Integer, kind == Categorical
	date := kind == Date || kind == Datetime
	for _, field := range []struct {
		name           string
		given, belongs bool
	}{
		{"categories", in.Categories != nil, words},
		{"names", in.Names != nil, words || kind == Code},
		{"prefixes", in.Prefixes != nil, kind == Code},
		{"codes", in.Codes != "", kind == Code},
		{"pattern", in.Pattern != "", kind == Identifier},
		{"format", in.Format != "", date},
		{"resolution", in.Resolution != "", date},
		{"nullable", in.Nullable, kind != Identifier},
		{"lower", in.Lower.set, number || date || kind == Binary},
		{"upper", in.Upper.set, number || date || kind == Binary},
		{"clip", in.Clip != nil, number || date},
		{"scale", in.Scale != "", number},
		{"spikes", in.Spikes != nil, number},
	} {
		if field.given && !field.belongs {
			return bad(field.name, fmt.Sprintf("%s does not belong to kind %s", field.name, kind),
				"remove it or correct the kind")
		}
	}
	return nil
}

// repeatColumn expands `repeat: n` to n columns; have is how many exist already.
func repeatColumn(in *columnFile, c Column, have int) ([]Column, *schemaProblem) {
	if in.Repeat == nil {
		if have >= maxColumns {
			return nil, bad("", fmt.Sprintf("more than %d columns", maxColumns), "use fewer")
		}
		return []Column{c}, nil
	}
	n := *in.Repeat
	if n < 1 || n > maxColumns-have {
		return nil, bad("", fmt.Sprintf("repeat must be from 1 to %d, all columns together", maxColumns),
			"correct the number")
	}
	if c.Role != RoleNone {
		return nil, bad("", "a column with a role cannot repeat", "remove repeat")
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
				return c.bad("the column of role site must be categorical", "list the sites under categories:")
			}
		case RoleUnit:
			at = &s.unit
			if c.Name == UnitRecord {
				return c.bad("a unit column cannot be called record, which means that every row is a unit", "rename it")
			}
			if c.Clip != nil {
				return c.bad("a unit column cannot have clip, which would join units", "remove clip")
			}
		default:
			continue
		}
		if *at >= 0 {
			return c.bad(fmt.Sprintf("a second column of role %s", c.Role), "keep one")
		}
		if c.Nullable {
			return c.bad(fmt.Sprintf("a column of role %s cannot be nullable", c.Role), "remove nullable")
		}
		*at = i
	}
	return nil
}

func (s *Schema) resolveLabel(f *schemaFile) *schemaProblem {
	if s.Label == "" {
		if f.Positive.set {
			return bad("$.positive", "positive is given but no label", "name the label's column under label:")
		}
		return nil
	}
	s.label = s.ColumnIndex(s.Label)
	if s.label < 0 {
		return bad("$.label", fmt.Sprintf("the label %q is not one of the columns", s.Label),
			"use the name of a column: "+s.fewNames())
	}
	c := &s.Columns[s.label]
	if c.Nullable || c.Role != RoleNone || !c.HasCell() {
		return &schemaProblem{path: "$.label", column: c.Name,
			problem: "the label cannot be nullable, have a role or be an identifier",
			fix:     "remove nullable or role, or choose another label"}
	}
	classes := s.Classes()
	if len(classes) == 2 {
		s.positive = 1
	}
	if f.Positive.set {
		if s.positive = slices.Index(classes, f.Positive.text); s.positive < 0 {
			return bad("$.positive", "positive is not a value of the label",
				"use one of its categories, 0 or 1 for a binary label")
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
		return bad("$.task", fmt.Sprintf("task %q does not fit the label, which makes it %q", s.Task, fits),
			"correct task or the label's kind")
	}
	return nil
}

func (s *Schema) resolveFormat(f *schemaFile) *schemaProblem {
	features := 0
	for i := range s.Columns {
		if i != s.label && s.Columns[i].HasCell() {
			features++
		}
	}
	if features == 0 {
		return bad("$.columns", "there is no column beside label, unit and identifiers",
			"list the data's columns")
	}
	switch s.Format {
	case "", "csv":
		s.Format = "csv"
		if s.Image != nil {
			return bad("$.image", "image belongs to format idx", "add format: idx or remove image")
		}
	case "idx":
		if s.Image == nil {
			return bad("$.format", "format idx needs the images' shape", "add image: {height, width, channels}")
		}
		h, w, n := s.Image.Height, s.Image.Width, s.Image.Channels
		if h < 1 || w < 1 || n < 1 || h > maxColumns || w > maxColumns || n > 4 || h*w*n != features {
			return bad("$.image", "height x width x channels is not the number of pixel columns",
				"correct image or repeat")
		}
		return s.checkImages()
	default:
		return bad("$.format", fmt.Sprintf("unknown format %q", s.Format), "use csv or idx")
	}
	return nil
}

// checkImages refuses columns that idx files of unsigned bytes cannot store.
func (s *Schema) checkImages() *schemaProblem {
	if n := len(s.Classes()); n == 0 || n > maxIDXClasses {
		return bad("$.label", fmt.Sprintf("images need a label of 1 to %d classes", maxIDXClasses),
			"name a categorical or binary column under label:")
	}
	for i := range s.Columns {
		c := &s.Columns[i]
		switch {
		case i == s.label:
		case c.Role != RoleNone:
			return c.bad(fmt.Sprintf("images have no column of role %s", c.Role),
				"remove it; every image is a record of its own")
		case c.Declared() != Integer || c.Lower != 0 || c.Upper != 255 || c.Clip != nil || c.Nullable:
			return c.bad("a pixel of an image is a whole number from 0 to 255",
				"use kind: integer, lower: 0, upper: 255, without clip and nullable")
		}
	}
	return nil
}

// maxIDXClasses is the number of classes that a byte distinguishes.
const maxIDXClasses = 256
