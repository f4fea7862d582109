package tabular

import (
	"bufio"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/parquet"
)

// The output formats of tables, which are also the endings of file names.
const (
	CSV     = "csv"
	Parquet = "parquet"
)

// Write writes a table in a format, with weights if there are any; see [WriteWeightedCSV] and [WriteParquet].
func Write(w io.Writer, form string, t *partition.Table, weights []float64) error {
	switch form {
	case CSV:
		return WriteWeightedCSV(w, t, weights)
	case Parquet:
		return WriteParquet(w, t, weights)
	}
	return fmt.Errorf("write table: no form %q; use %s or %s", form, CSV, Parquet)
}

// WriteCSV writes a header and the rows, with the schema's columns in order. A table read by ReadCSV is restored
// cell by cell.
func WriteCSV(w io.Writer, t *partition.Table) error { return WriteWeightedCSV(w, t, nil) }

// WriteWeightedCSV is WriteCSV with a last column WeightColumn, whose numbers have enough digits to be restored
// exactly; nil writes no such column. There is one weight for each row, none negative, with mean 1. If the schema
// has a column of that name, it fails with ErrWeightColumn and writes nothing.
func WriteWeightedCSV(w io.Writer, t *partition.Table, weights []float64) error {
	s := t.Schema()
	if weights != nil {
		if err := t.CheckWeights(weights); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	out := bufio.NewWriterSize(w, 1<<16)
	var line, cell []byte
	for i := range s.Columns {
		line = appendField(line, i, []byte(s.Columns[i].Name))
	}
	if weights != nil {
		line = appendField(line, len(s.Columns), []byte(partition.WeightColumn))
	}
	_, _ = out.Write(append(line, '\n')) // keeps the first error
	for row := range t.Len() {
		line = line[:0]
		for i := range s.Columns {
			cell = t.AppendCell(cell[:0], row, i)
			line = appendField(line, i, cell)
		}
		if weights != nil {
			line = appendField(line, len(s.Columns), partition.AppendNumber(cell[:0], weights[row]))
		}
		if len(line) == 0 {
			line = append(line, `""`...) // a single empty cell; an empty line would not be a row
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

// appendField adds the field at position at of its line. It is quoted if RFC 4180 requires it, or if a reader may
// trim spaces.
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

// WriteParquet is [WriteWeightedCSV] for a Parquet file: integer and binary columns are INT64, continuous ones and
// weights DOUBLE, and all others have the texts of CSV. Empty cells are null.
func WriteParquet(w io.Writer, t *partition.Table, weights []float64) error {
	s := t.Schema()
	if weights != nil {
		if err := t.CheckWeights(weights); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	var columns []parquet.Column
	for i := range s.Columns {
		columns = append(columns, parquet.Column{Name: s.Columns[i].Name, Kind: parquetKind(&s.Columns[i])})
	}
	if weights != nil {
		columns = append(columns, parquet.Column{Name: partition.WeightColumn, Kind: parquet.Number})
	}
	out := parquet.NewWriter(w, columns, func(i int) bool {
		return i < len(s.Columns) && (s.Columns[i].Nullable || i == s.UnitColumn())
	})
	texts := make([]string, len(columns))
	for row := range t.Len() {
		for i := range s.Columns {
			texts[i] = string(t.AppendCell(nil, row, i))
		}
		if weights != nil {
			texts[len(s.Columns)] = string(partition.AppendNumber(nil, weights[row]))
		}
		if err := out.Write(texts); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func parquetKind(c *partition.Column) parquet.Kind {
	switch c.Declared() {
	case partition.Integer, partition.Binary:
		return parquet.Whole
	case partition.Continuous:
		return parquet.Number
	default:
		return parquet.Text
	}
}
