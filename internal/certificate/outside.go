package certificate

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// namedOutside is the number of columns that a sentence names, longestNamed the longest name in runes; together they
// bound a note.
const (
	namedOutside = 8
	longestNamed = 40
)

// OutsideGuarantee says that bounds or categories of columns come from the rows.
func OutsideGuarantee(columns []string) string {
	var named []string
	for _, name := range columns[:min(len(columns), namedOutside)] {
		if runes := []rune(name); len(runes) > longestNamed {
			name = string(runes[:longestNamed]) + "..."
		}
		named = append(named, fmt.Sprintf("%q", name))
	}
	if more := len(columns) - namedOutside; more > 0 {
		named = append(named, text.Several(more, "other column"))
	}
	return "Outside the guarantee: the schema takes bounds or categories from the rows (source: rows) of " +
		strings.Join(named, ", ") + "."
}

// outside is the note about columns outside the guarantee; empty if there are none.
func (c Certificate) outside() []string {
	if len(c.ColumnsFromRows) == 0 {
		return nil
	}
	return []string{OutsideGuarantee(c.ColumnsFromRows)}
}

// checkColumns refuses texts that cannot be names of a schema's columns.
func checkColumns(names []string) error {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if name == "" || !utf8.ValidString(name) || seen[name] {
			return fmt.Errorf("name %d: it must be the name of a column, listed once", i+1)
		}
		seen[name] = true
	}
	return nil
}
