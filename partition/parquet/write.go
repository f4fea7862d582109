package parquet

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	pq "github.com/parquet-go/parquet-go"
)

// rowsPerGroup bounds the memory of a reader of one group.
const rowsPerGroup = 1 << 17

// Writer writes rows of texts, as [File.Rows] yields them: whole numbers as INT64, numbers as DOUBLE, and all others
// as UTF-8 with a dictionary. Pages have checksums and are compressed with zstd.
type Writer struct {
	columns  []Column
	nullable func(column int) bool
	rows     *pq.GenericWriter[any]
	row      pq.Row
	written  int
}

// NewWriter starts a file with columns of kinds Whole, Number and Text. Nullable columns may have empty cells.
func NewWriter(w io.Writer, columns []Column, nullable func(column int) bool) *Writer {
	group := ordered{Group: pq.Group{}}
	for i, c := range columns {
		var node pq.Node
		switch c.Kind {
		case Whole:
			node = pq.Leaf(pq.Int64Type)
		case Number:
			node = pq.Leaf(pq.DoubleType)
		default:
			node = pq.Encoded(pq.String(), &pq.RLEDictionary)
		}
		if nullable(i) {
			node = pq.Optional(node)
		}
		group.Group[c.Name] = node
		group.names = append(group.names, c.Name)
	}
	return &Writer{columns: columns, nullable: nullable, rows: pq.NewGenericWriter[any](w, pq.NewSchema("table", group),
		pq.Compression(&pq.Zstd), pq.MaxRowsPerRowGroup(rowsPerGroup))}
}

// Write adds a row with a text per column, empty for null. Errors do not contain cells.
func (w *Writer) Write(cells []string) error {
	if len(cells) != len(w.columns) {
		return fmt.Errorf("write a row: %d cells for %d columns", len(cells), len(w.columns))
	}
	w.row = w.row[:0]
	for i, c := range w.columns {
		v, err := valueOf(c.Kind, cells[i])
		if err != nil {
			return fmt.Errorf("write row %d, column %q: %w", w.written+1, c.Name, err)
		}
		defined := 0 // what the format calls the definition level
		switch {
		case v.IsNull() && !w.nullable(i):
			return fmt.Errorf("write row %d, column %q: an empty cell in a column that has none", w.written+1, c.Name)
		case !v.IsNull() && w.nullable(i):
			defined = 1
		}
		w.row = append(w.row, v.Level(0, defined, i))
	}
	w.written++
	_, err := w.rows.WriteRows([]pq.Row{w.row})
	return err
}

// Close ends the file.
func (w *Writer) Close() error { return w.rows.Close() }

func valueOf(k Kind, text string) (pq.Value, error) {
	switch {
	case text == "":
		return pq.NullValue(), nil
	case k == Whole:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return pq.Value{}, errors.New("no whole number of 64 bits")
		}
		return pq.Int64Value(n), nil
	case k == Number:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return pq.Value{}, errors.New("no number of 64 bits")
		}
		return pq.DoubleValue(x), nil
	default:
		return pq.ByteArrayValue([]byte(text)), nil
	}
}

// ordered is a group with its own column order; the library sorts columns by name.
type ordered struct {
	pq.Group
	names []string
}

// Fields are the columns.
func (o ordered) Fields() []pq.Field {
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b pq.Field) int {
		return slices.Index(o.names, a.Name()) - slices.Index(o.names, b.Name())
	})
	return fields
}
