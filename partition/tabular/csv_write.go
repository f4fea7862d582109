package tabular

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/partition"
)

// WriteCSV writes a header and the rows: the schema's columns in order, then
// the extra ones. What ReadCSV read comes back cell by cell. It checks the
// extra columns before it writes anything.
func WriteCSV(w io.Writer, t *partition.Table, extra ...partition.ExtraColumn) error {
	s := t.Schema()
	for _, e := range extra {
		if e.Name == "" || strings.ContainsAny(e.Name, "\r\n") || s.ColumnIndex(e.Name) >= 0 {
			return fmt.Errorf("write table: extra column %q: choose a name that the schema does not have", e.Name)
		}
		if len(e.Values) != t.Len() {
			return fmt.Errorf("write table: extra column %q has %d values for %d rows", e.Name, len(e.Values), t.Len())
		}
		for row, v := range e.Values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("write table: extra column %q, row %d: not a finite number", e.Name, row+1)
			}
		}
	}
	out := bufio.NewWriterSize(w, 1<<16)
	var line, cell []byte
	for i := range s.Columns {
		line = appendField(line, i, []byte(s.Columns[i].Name))
	}
	for _, e := range extra {
		line = appendField(line, len(s.Columns), []byte(e.Name))
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	for row := range t.Len() {
		line = line[:0]
		cells := t.Cells(row)
		for i := range s.Columns {
			cell = cell[:0]
			if i == s.UnitColumn() {
				cell = append(cell, t.Unit(row)...)
			} else {
				cell = s.Columns[i].AppendCell(cell, cells[i])
			}
			line = appendField(line, i, cell)
		}
		for _, e := range extra {
			line = appendField(line, len(s.Columns), partition.AppendNumber(cell[:0], e.Values[row]))
		}
		if len(line) == 0 {
			line = append(line, `""`...) // a lone empty cell; an empty line would be no row
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// appendField adds the field at position at of its line, quoted where RFC 4180
// asks for it, and where a reader may trim spaces.
func appendField(line []byte, at int, field []byte) []byte {
	if at > 0 {
		line = append(line, ',')
	}
	if !needsQuotes(field) {
		return append(line, field...)
	}
	line = append(line, '"')
	for _, b := range field {
		if b == '"' {
			line = append(line, '"')
		}
		line = append(line, b)
	}
	return append(line, '"')
}

func needsQuotes(field []byte) bool {
	for _, b := range field {
		if b == ',' || b == '"' || b == '\r' || b == '\n' {
			return true
		}
	}
	first, _ := utf8.DecodeRune(field)
	last, _ := utf8.DecodeLastRune(field)
	return len(field) > 0 && (unicode.IsSpace(first) || unicode.IsSpace(last) || first == '\ufeff')
}
