package proposal

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/conclave-dp/conclave/partition"
)

// The kinds of proposed columns, in the words of a schema. A schema has no free text: such columns are ignored.
const (
	kindInteger     = string(partition.Integer)
	kindContinuous  = string(partition.Continuous)
	kindCategorical = string(partition.Categorical)
	kindBinary      = string(partition.Binary)
	kindDate        = string(partition.Date)
	kindDatetime    = string(partition.Datetime)
	kindCode        = string(partition.Code)
	kindIdentifier  = string(partition.Identifier)
	freeText        = string(partition.Text)
	// anyNumber is a dictionary's word for numbers. The cells decide whether they are whole.
	anyNumber = "number"
)

// mostClasses is the largest number of different whole numbers for which a label has classes.
const mostClasses = 20

// Column is a proposed column. Values are spelled as in a schema, or partition.Todo if a person must fill them
// in.
type Column struct {
	Name         string
	Kind         string
	Nullable     bool
	Lower, Upper string
	Scale        string
	Categories   []string // nil if they must still be listed
	Names        []string
	Format       string
	Resolution   string
	Prefixes     []string // as Categories
	Codes        string   // the list, beside the schema
	Pattern      string
	Source       partition.Source // partition.Todo if a field is unfinished
	Doc          string
	Hint         string // how to fill in unfinished fields
	Remark       string // anything else that a person must do or know
}

// Unfinished are the fields of a column that a person must fill in, in the order of a schema.
func (c *Column) Unfinished() (fields []string) {
	for _, f := range []struct{ name, value string }{{"lower", c.Lower}, {"upper", c.Upper}, {"format", c.Format}} {
		if f.value == partition.Todo {
			fields = append(fields, f.name)
		}
	}
	switch {
	case c.Kind == kindCategorical && c.Categories == nil:
		fields = append(fields, "categories")
	case c.Kind == kindCode && c.Prefixes == nil:
		fields = append(fields, "prefixes")
	}
	return fields
}

// maker makes columns from the profiles and from public knowledge.
type maker struct {
	table      *table
	dictionary *dictionary
	most       int    // prefixes of a column of codes
	folder     string // of the schema
}

// column proposes a column. Free text has that kind, and the reason as remark. A label with few different
// numbers has classes.
func (m *maker) column(p *profile, label bool) (Column, error) {
	e, _ := m.dictionary.of(p.name)
	if 2*p.notNumbers(e) > p.cells {
		return Column{}, &partition.InputError{File: m.dictionary.path, Column: p.name,
			Problem: "the dictionary says numbers, but most cells are not numbers",
			Fix:     "correct type and bounds, or leave them empty"}
	}
	c := Column{Name: p.name, Nullable: p.empty+p.words > 0, Doc: e.doc}
	c.Kind, c.Remark = p.kind(e)
	if label && c.Kind == kindInteger && p.whole == p.cells && len(p.values) <= mostClasses && e.kind == "" {
		c.Kind = kindCategorical
	}
	var err error
	switch c.Kind {
	case kindInteger, kindContinuous:
		m.number(&c, p, e)
	case kindDate, kindDatetime:
		err = m.date(&c, p, e)
	case kindCategorical:
		m.categorical(&c, p, e)
	case kindCode:
		err = m.code(&c, p, e)
	case kindIdentifier:
		c.Pattern = e.pattern
		c.remark("if it identifies the persons to protect, write role: unit in place of the kind")
	}
	if p.words > 0 && c.Kind != freeText {
		c.remark("cells with a word for a missing value, such as NA, must be emptied")
	}
	if len(c.Unfinished()) > 0 {
		c.Source = partition.Todo
	}
	return c, err
}

// hint adds to the advice on unfinished fields.
func (c *Column) hint(format string, args ...any) {
	c.Hint = joined(c.Hint, fmt.Sprintf(format, args...))
}

// remark adds to the other remarks for a person.
func (c *Column) remark(text string) { c.Remark = joined(c.Remark, text) }

// Comment is the comment after the column in the schema.
func (c *Column) Comment() string { return joined(c.Hint, c.Remark) }

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// number takes the bounds of the dictionary, or else of the list of common variables.
func (m *maker) number(c *Column, p *profile, e entry) {
	c.Lower, c.Upper = partition.Todo, partition.Todo
	known, common := builtIn(p.name)
	switch {
	case e.lower != "" || e.upper != "":
		c.Source = partition.SourceDictionary
		for _, bound := range []struct {
			in  string
			out *string
		}{{e.lower, &c.Lower}, {e.upper, &c.Upper}} {
			if bound.in != "" {
				*bound.out = bound.in
			}
		}
		if open := c.Unfinished(); len(open) > 0 {
			c.hint("write %s from documentation or knowledge of the field", open[0])
		}
	case common && known.unit != nil && !known.variable.Date:
		c.Source, c.Lower, c.Upper = partition.SourceBuiltIn, known.unit.Lower, known.unit.Upper
		if known.variable.Log {
			c.Scale = string(partition.Log)
		}
		c.Doc = cmp.Or(c.Doc, known.unit.Name) + "; " + known.variable.Source
	case common && len(known.variable.Units) > 1:
		c.hint("%s, in which unit? %s", known.variable.Name, known.variable.choices())
	case c.Kind == kindInteger:
		c.hint("write public bounds, or kind: categorical and the categories if the numbers are codes")
	default:
		c.hint("write public bounds, from documentation or knowledge of the field")
	}
	if c.Kind == kindInteger {
		c.Lower, c.Upper = roundOutward(c.Lower, c.Upper)
	}
	switch {
	case m.table.csv.Decimal == "" && p.comma > 0:
		c.remark("some cells have a decimal comma, others a point: write all alike")
	case m.table.csv.Decimal != "" && p.point > 0:
		c.remark("some cells have a decimal point, others a comma: write all alike")
	}
}

// code takes prefixes from a public list of codes, or the first letters of a known classification.
func (m *maker) code(c *Column, p *profile, e entry) error {
	if e.codes != "" {
		var err error
		if c.Prefixes, err = prefixesOf(e.codes, m.most); err != nil {
			return err
		}
		c.Codes, c.Source = filepath.Base(e.codes), partition.SourceDictionary
		if filepath.Clean(filepath.Dir(e.codes)) != filepath.Clean(m.folder) {
			c.remark("copy the list of codes next to the schema")
		}
		return nil
	}
	prefixes, _ := p.codesOf()
	if prefixes == nil {
		c.hint("list the prefixes of the codes under prefixes, from their classification")
		return nil
	}
	c.Prefixes, c.Source = slices.Clone(prefixes), partition.SourceBuiltIn
	if c.Doc == "" {
		c.Doc = "by first letter"
	}
	c.remark("finer prefixes keep more; a list of codes in the dictionary (codes) gives them")
	return nil
}
