package tabular

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

// match finds the schema's columns among the source's, and those that nothing reads.
func (b *Builder) match(header []SourceColumn) *partition.InputError {
	names := namesOf(b.schema, b.options.Weights)
	m := names.match(header)
	switch {
	case len(m.alike) > 0: // reported below
	case m.known == 0 && b.source.sure:
		return b.fail("", "the table has none of the schema's columns", "name the columns as the schema does")
	case m.known == 0:
		// The first line may be a record, so the error does not quote it.
		return b.fail("", "the first line has none of the schema's column names", "start the file with a header line")
	}
	b.target = m.target
	for i, at := range b.target {
		if at >= 0 && !b.schema.Columns[at].HasCell() && (at != b.schema.UnitColumn() || b.options.IgnoreUnit) {
			b.target[i] = toNowhere
		}
	}
	var missing []string
	for i := range b.schema.Columns {
		// Rows of a generated table belong to nobody, so units and identifiers may be missing.
		if !m.found[i] && !m.unclear[i] && (b.schema.Columns[i].HasCell() || !b.options.IgnoreUnit) {
			missing = append(missing, b.schema.Columns[i].Name)
		}
	}
	if len(m.unknown) > 0 || len(missing) > 0 || len(m.twice) > 0 || len(m.alike) > 0 {
		// If the line is a record, few of its cells match the schema's names, and the cells are values.
		sure := b.source.sure || 2*m.known >= len(header) || m.known > 1 && 2*m.known >= len(b.schema.Columns)
		return b.misfit(header, missing, m, sure)
	}
	if len(m.similar) > 0 && b.options.Warn != nil {
		b.options.Warn(fmt.Sprintf("%s: %s found by a similar name: %s", b.name, columnsAre(len(m.similar)),
			strings.Join(m.similar, ", ")))
	}
	return b.checkKinds(header)
}

// misfit reports columns that are duplicated, ambiguous, missing or unknown. It reports only the numbers of
// unknown ones, unless the line is surely a header.
func (b *Builder) misfit(header []SourceColumn, missing []string, m *matched, sure bool) *partition.InputError {
	unknown := m.unknown
	if len(unknown)+len(missing)+len(m.twice)+len(m.alike) == 1 {
		switch {
		case len(unknown) == 1:
			return b.unknownColumn(header, unknown[0], sure)
		case len(missing) == 1:
			e := b.fail(missing[0], "the column is missing from the "+b.source.place, "add it to the "+b.source.thing)
			e.SchemaFix = "remove it from the schema if no other site uses it"
			return e
		case len(m.twice) == 1:
			return b.fail(m.twice[0], "the column is in the "+b.source.place+" twice", "remove or rename one")
		}
	}
	var problems, fixes []string
	if len(m.twice) > 0 {
		problems = append(problems, fmt.Sprintf("%s in the %s twice: %s", columnsAre(len(m.twice)), b.source.place,
			quoted(m.twice)))
		fixes = append(fixes, "remove or rename one of each")
	}
	if len(m.alike) > 0 {
		problems = append(problems, "it is not clear which columns of the schema these are: "+quoted(m.alike))
		fixes = append(fixes, "name one of them exactly as the schema does")
	}
	if n := len(missing); n > 0 {
		problems = append(problems, fmt.Sprintf("%s missing from the %s: %s", columnsAre(n),
			b.source.place, quoted(missing)))
		fixes = append(fixes, "add what is missing to the "+b.source.thing)
	}
	if n := len(unknown); n > 0 {
		which := make([]string, n)
		for i, at := range unknown {
			if which[i] = strconv.Quote(header[at].Name); !sure || !isName(header[at].Name) {
				which[i] = "column " + strconv.Itoa(at+1)
			}
		}
		problems = append(problems, fmt.Sprintf("%s not in the schema: %s", columnsAre(n),
			few(which)))
		fixes = append(fixes, "remove from the "+b.source.thing+" what is not in the schema")
	}
	e := b.fail("", strings.Join(problems, ", and "), strings.Join(fixes, "; "))
	if len(missing)+len(unknown) > 0 {
		e.SchemaFix = "change the columns: or ignore: of the schema if no other site uses it"
	}
	return e
}

// unknownColumn is the error for the only column that does not belong.
func (b *Builder) unknownColumn(header []SourceColumn, at int, sure bool) *partition.InputError {
	e := b.fail("", fmt.Sprintf("column %d of the %s is not in the schema", at+1, b.source.place),
		"remove it from the "+b.source.thing)
	e.SchemaFix = "add it to the columns: or ignore: of the schema if no other site uses it"
	switch {
	case !sure, strings.TrimSpace(header[at].Name) != "" && !isName(header[at].Name):
	case strings.TrimSpace(header[at].Name) == "":
		e.Problem, e.Fix = fmt.Sprintf("column %d of the %s has no name", at+1, b.source.place),
			"give it its name in the schema, or remove the column (a delimiter too many makes one)"
		e.SchemaFix = ""
	case header[at].Name == partition.WeightColumn:
		e.Column, e.Problem = partition.WeightColumn, "the schema has no such column; it has the importance weights "+
			"of synthetic rows, and this table must have none"
		e.Fix, e.SchemaFix = "give the file as synthetic rows, or remove the column with the weights", ""
	default:
		e.Column, e.Problem = header[at].Name, "the column is not in the schema"
	}
	return e
}

// isName reports whether a text in a header can be quoted as a name. Long texts and texts with line breaks may be
// rows between quotes that do not match.
func isName(text string) bool {
	const longest = 200
	return strings.TrimSpace(text) != "" && len(text) <= longest && !strings.ContainsFunc(text, unicode.IsControl)
}

func columnsAre(n int) string {
	if n == 1 {
		return "1 column is"
	}
	return text.Several(n, "column") + " are"
}

// quoted lists names in quotes, only the first ones if there are many.
func quoted(names []string) string {
	in := make([]string, len(names))
	for i, name := range names {
		in[i] = strconv.Quote(name)
	}
	return few(in)
}

// few lists words, only the first ones if there are many.
func few(words []string) string {
	const most = 20
	if n := len(words); n > most {
		return strings.Join(words[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	return strings.Join(words, ", ")
}
