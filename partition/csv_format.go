package partition

import (
	"fmt"
	"slices"
	"strings"
)

// CSV is how the CSV files of a schema are written. What it leaves out is detected in each file.
type CSV struct {
	// Encoding is `latin1` for files that may be windows-1252, which contains Latin-1. A file that is valid UTF-8 is
	// still read as UTF-8. Default: UTF-8 or UTF-16.
	Encoding string `yaml:"encoding"`
	// Delimiter is one ASCII character. Default: that of `,` `;` tab and `|` under which the header has most columns.
	Delimiter string `yaml:"delimiter"`
	// Decimal is what separates the decimals of a number, a point or a comma. Default: a point, and also a comma if it
	// is not the delimiter.
	Decimal string `yaml:"decimal"`
}

// Latin1 is the encoding of files that are windows-1252 if they are not UTF-8.
const Latin1 = "latin1"

// resolveCSV checks the CSV format and the ignored columns.
func (s *Schema) resolveCSV(f *schemaFile) *schemaProblem {
	if c := f.CSV; c != nil {
		s.CSV = *c
	}
	if e := s.CSV.Encoding; e != "" && e != Latin1 {
		return bad("$.csv.encoding", fmt.Sprintf("unknown encoding %q", e),
			"use latin1, or leave it out for UTF-8 and UTF-16")
	}
	if d := s.CSV.Delimiter; d != "" && (len(d) != 1 || !delimits(d[0])) {
		return bad("$.csv.delimiter", "a delimiter must be one character that is not a quote and not part of numbers",
			`use ",", ";", "|" or "\t" for a tab, in double quotes`)
	}
	if d := s.CSV.Decimal; d != "" && d != "." && d != "," {
		return bad("$.csv.decimal", "decimals begin with a point or a comma", `use "." or ","`)
	}
	for i, name := range f.Ignore {
		path := fmt.Sprintf("$.ignore[%d]", i)
		switch {
		case strings.TrimSpace(name.text) == "":
			return bad(path, "a column to ignore has no name", "use the name in the header")
		case slices.Contains(s.Ignore, name.text):
			return bad(path, fmt.Sprintf("column %q is listed twice under ignore", name.text), "remove one")
		case s.ColumnIndex(name.text) >= 0:
			return bad(path, fmt.Sprintf("column %q is in both columns and ignore", name.text),
				"remove it from ignore or from columns")
		}
		s.Ignore = append(s.Ignore, name.text)
	}
	return nil
}

// delimits reports whether a character can separate cells.
func delimits(b byte) bool {
	letter := b|0x20 >= 'a' && b|0x20 <= 'z'
	return b < 0x7f && (b > ' ' || b == '\t' || b == ' ') && !letter && !(b >= '0' && b <= '9') &&
		!strings.ContainsRune(`"._+-`, rune(b))
}
