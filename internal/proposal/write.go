package proposal

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/conclave-dp/conclave/internal/pattern"
	"github.com/conclave-dp/conclave/partition"
)

// YAML is the schema as text, one line for each column, with unfinished fields in comments.
func (p *Proposal) YAML() []byte {
	var b bytes.Buffer
	b.WriteString("# Proposed by conclave schema propose. Everything here is public: replace each TODO with public " +
		"knowledge,\n# never from the rows, rounded outward. docs/schema.md explains the fields.\n")
	fmt.Fprintf(&b, "name: %s\n", word(p.Name))
	if p.Label != "" {
		fmt.Fprintf(&b, "label: %s\n", word(p.Label))
	} else {
		b.WriteString("# label: COLUMN   what rows are generated for, if anything\n")
	}
	if csv := p.CSV.fields(); csv != "" {
		fmt.Fprintf(&b, "csv: {%s}\n", csv)
	}
	if len(p.Ignored) > 0 {
		b.WriteString("ignore: # stay at the site\n")
		for _, c := range p.Ignored {
			fmt.Fprintf(&b, "  - %s # %s\n", word(c.Name), c.Why)
		}
	}
	b.WriteString("columns:\n")
	for i := range p.Columns {
		fmt.Fprintf(&b, "  - {%s}", p.Columns[i].fields())
		if comment := p.Columns[i].Comment(); comment != "" {
			fmt.Fprintf(&b, " # %s", comment)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func (c CSV) fields() string {
	var f fields
	f.add("encoding", c.Encoding)
	f.add("delimiter", c.Delimiter)
	f.add("decimal", c.Decimal)
	return f.String()
}

func (c *Column) fields() string {
	var f fields
	f.add("name", c.Name)
	f.plain("kind", c.Kind)
	f.plain("lower", c.Lower)
	f.plain("upper", c.Upper)
	f.add("format", c.Format)
	f.plain("resolution", c.Resolution)
	f.plain("scale", c.Scale)
	f.list("categories", c.Categories, c.Kind == kindCategorical)
	f.list("names", c.Names, false)
	f.list("prefixes", c.Prefixes, c.Kind == kindCode)
	f.add("codes", c.Codes)
	f.add("pattern", c.Pattern)
	if c.Nullable {
		f.plain("nullable", "true")
	}
	f.plain("source", string(c.Source))
	f.add("doc", c.Doc)
	return f.String()
}

// fields are the fields of a mapping in flow style; empty values are left out.
type fields []string

func (f *fields) plain(name, value string) {
	if value != "" {
		*f = append(*f, name+": "+value)
	}
}

func (f *fields) add(name, value string) {
	if value != "" {
		f.plain(name, word(value))
	}
}

// list adds values, or TODO if values are needed but missing.
func (f *fields) list(name string, values []string, needed bool) {
	if len(values) == 0 {
		if needed {
			f.plain(name, partition.Todo)
		}
		return
	}
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = word(value)
	}
	f.plain(name, "["+strings.Join(words, ", ")+"]")
}

func (f fields) String() string { return strings.Join(f, ", ") }

// plainWord matches text that YAML reads as the same text without quotes.
var plainWord = pattern.Of(`^\p{L}[\p{L}0-9_./-]*$`)

// otherWords are words that YAML reads as another type.
var otherWords = map[string]bool{"true": true, "false": true, "null": true, "yes": true, "no": true, "on": true,
	"off": true, "y": true, "n": true}

// word writes a text as a YAML scalar that reads as this text.
func word(text string) string {
	if plainWord.MatchString(text) && !otherWords[strings.ToLower(text)] {
		return text
	}
	return strconv.Quote(text) // YAML reads the escapes of Go
}
