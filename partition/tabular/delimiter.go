package tabular

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/partition"
)

const (
	// delimiters are those that are detected, the first one by default.
	delimiters = ",;\t|"
	// rareDelimiters are those that the schema has to name.
	rareDelimiters = ": ^~#!/*"
)

// csvHeader is the first line of a CSV file.
type csvHeader struct {
	delimiter byte
	names     []string
	line, end int // its line, from 1, and its end
	known     int // number of names in the schema
}

// readHeader reads the first line that is not empty. It uses the delimiter that the schema names, or a comma,
// which generated files always have; the one that gives the most columns of the schema wins. An error has the line
// in the text.
func readHeader(s *partition.Schema, text string) (*csvHeader, *partition.InputError) {
	names, said := namesOf(s, true), s.CSV.Delimiter
	among := delimiters
	if said != "" {
		among = said + ","
	}
	h, tied, bad := names.header(text, among)
	if bad != nil {
		return nil, bad
	}
	if !utf8.ValidString(text[:h.end]) {
		return nil, notUTF8(text[:h.end])
	}
	if tied != 0 && said == "" {
		return nil, wrongDelimiter(h, fmt.Sprintf("the header fits the delimiters %q and %q alike",
			string(h.delimiter), string(tied)))
	}
	if said == "" && h.known > 0 {
		return h, nil
	}
	o, _, bad := names.header(text, delimiters+rareDelimiters)
	if bad != nil || o.known <= h.known {
		if below := names.headerBelow(text[h.end:], among); h.known == 0 && below > 0 {
			return nil, &partition.InputError{Line: h.line, Fix: "remove the lines above the header",
				Problem: fmt.Sprintf("the header is not the first line but line %d",
					below+strings.Count(text[:h.end], "\n"))}
		}
		return h, nil
	}
	problem := fmt.Sprintf("the header seems to have the delimiter %q", string(o.delimiter))
	if said != "" {
		problem += fmt.Sprintf(", and the schema says %q", said)
	}
	return nil, wrongDelimiter(o, problem)
}

// header splits the first line by each of some delimiters. It returns the best result, and another delimiter that
// is as good, 0 for none.
func (n *columnNames) header(text, among string) (best *csvHeader, tied byte, bad *partition.InputError) {
	for i := range len(among) {
		r := newRecords(text, among[i])
		fields, _, ok := r.next()
		if !ok {
			bad = brokenQuotes(r.lineOf(0))
			continue
		}
		h := &csvHeader{among[i], slices.Clone(fields), r.lineOf(0), r.at, n.count(fields)}
		switch {
		case best == nil || h.known > best.known:
			best, tied = h, 0
		case h.known == best.known && h.known > 0 && !slices.Equal(h.names, best.names):
			tied = h.delimiter
		}
	}
	if best != nil {
		bad = nil
	}
	return best, tied, bad
}

// headerBelow is the line of a header among the first lines of a text, for a header below a title; 0 for none.
func (n *columnNames) headerBelow(text, among string) int {
	const most = 10
	for at, tries := 0, 0; at < len(text) && tries < most; tries++ {
		h, _, bad := n.header(text[at:], among)
		if bad != nil {
			return 0
		}
		if all := len(n.words); h.known == all || h.known > 1 && 2*h.known >= all {
			return h.line + strings.Count(text[:at], "\n")
		}
		at += h.end
	}
	return 0
}

func wrongDelimiter(seems *csvHeader, problem string) *partition.InputError {
	return &partition.InputError{Line: seems.line, Problem: problem, Fix: "save the file with another delimiter",
		SchemaFix: fmt.Sprintf("write csv: {delimiter: %q} in the schema", string(seems.delimiter))}
}

func notUTF8(text string) *partition.InputError {
	return &partition.InputError{Line: 1 + strings.Count(text[:invalidAt(text)], "\n"),
		Problem: "the text is not UTF-8", Fix: "save the file as UTF-8",
		SchemaFix: "write csv: {encoding: latin1} in the schema"}
}

// invalidAt is the offset of the first character that is not UTF-8.
func invalidAt(text string) int {
	for i, c := range text {
		if c == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return i
			}
		}
	}
	return len(text)
}

func brokenQuotes(line int) *partition.InputError {
	return &partition.InputError{Line: line, Problem: "broken quotes",
		Fix: `put a cell with quotes, delimiters or line breaks in "..." and double the quotes in it`}
}
