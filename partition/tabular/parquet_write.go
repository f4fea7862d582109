package tabular

import (
	"fmt"
	"io"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/parquet"
)

// The forms that tables are written in, by which their files' names end.
const (
	CSV     = "csv"
	Parquet = "parquet"
)

// Write writes a table in a form, with weights where there are any; see [WriteWeightedCSV] and [WriteParquet].
func Write(w io.Writer, form string, t *partition.Table, weights []float64) error {
	switch form {
	case CSV:
		return WriteWeightedCSV(w, t, weights)
	case Parquet:
		return WriteParquet(w, t, weights)
	}
	return fmt.Errorf("write table: no form %q; use %s or %s", form, CSV, Parquet)
}

// WriteParquet is [WriteWeightedCSV] as a Parquet file: integer and binary columns are INT64, continuous ones and the
// weights DOUBLE, and all others the texts of CSV. Empty cells are null.
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
