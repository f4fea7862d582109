package tabular

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// match finds the schema's columns among the source's.
func (b *Builder) match(header []SourceColumn) *partition.InputError {
	names := make(map[string]int, len(b.schema.Columns)+1)
	if b.options.Weights {
		names[partition.WeightColumn] = toWeights // but where the schema has that column
	}
	for i := range b.schema.Columns {
		names[b.schema.Columns[i].Name] = i
	}
	b.target = make([]int, len(header))
	taken := make(map[int]bool) // targets
	unknown := -1
	known := 0
	for i := range header {
		name := header[i].Name
		at, ok := names[name]
		if !ok {
			if unknown < 0 {
				unknown = i
			}
			continue
		}
		if taken[at] {
			return b.fail(name, "the column is in the "+b.source.place+" twice", "remove or rename one")
		}
		taken[at] = true
		known++
		b.target[i] = at
		if at >= 0 && !b.schema.Columns[at].HasCell() && (at != b.schema.UnitColumn() || b.options.IgnoreUnit) {
			b.target[i] = toNowhere
		}
	}
	if known == 0 && b.source.sure {
		return b.fail("", "there is none of the schema's columns", "name the columns as the schema does")
	}
	if known == 0 {
		// The first line may be a record: say nothing of what it holds.
		return b.fail("", "the first line has none of the schema's column names", "start the file with a header line")
	}
	if unknown >= 0 {
		return b.unknownColumn(header, unknown, known)
	}
	for i := range b.schema.Columns {
		if !taken[i] && !b.nobody(i) {
			return b.fail(b.schema.Columns[i].Name, "the column is missing from the "+b.source.place,
				"add it to the "+b.source.thing+" or remove it from the schema")
		}
	}
	return b.checkKinds(header)
}

// nobody tells whether a column may be missing from a generated table, whose rows belong to nobody: one of units or of
// identifiers.
func (b *Builder) nobody(column int) bool {
	return b.options.IgnoreUnit && !b.schema.Columns[column].HasCell()
}

// unknownColumn names the column only if the line is surely a header: most of
// its cells are the schema's names. Otherwise the cell could be a value.
func (b *Builder) unknownColumn(header []SourceColumn, at, known int) *partition.InputError {
	e := b.fail("", fmt.Sprintf("column %d of the %s is not in the schema", at+1, b.source.place),
		"remove it from the "+b.source.thing+" or add it to the schema")
	switch {
	case 2*known < len(header) && !b.source.sure:
	case strings.TrimSpace(header[at].Name) == "":
		e.Problem, e.Fix = fmt.Sprintf("column %d of the %s has no name",
			at+1, b.source.place), "give it its name in the schema, or remove the column (a comma too many makes one)"
	case header[at].Name == partition.WeightColumn:
		e.Column, e.Problem = partition.WeightColumn, "the schema has no such column,"+
			" but synthetic rows have their importance weights in one; here rows without weights were expected"
		e.Fix = "name the file where synthetic rows are asked for, or remove the column and with it the weights"
	default:
		e.Column, e.Problem = header[at].Name, "the column is not in the schema"
	}
	return e
}
