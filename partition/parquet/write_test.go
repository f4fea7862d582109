package parquet

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// written returns a file of rows.
func written(t testing.TB, columns []Column, rows [][]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, columns, func(i int) bool { return strings.HasPrefix(columns[i].Name, "nullable") })
	for _, row := range rows {
		testkit.Must(t, w.Write(row))
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

func TestWhatTheWriterWritesIsRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"b", "nullable a", "1st", "B", "é", "nullable.c",
			"x y", "nullable_", "_"}), 1, 9, rapid.ID[string]).Draw(rt, "names")
		columns := make([]Column, len(names))
		for i, name := range names {
			columns[i] = Column{Name: name, Kind: rapid.SampledFrom([]Kind{Whole, Number, Text}).Draw(rt, "kind")}
		}
		var rows [][]string
		for range rapid.IntRange(0, 40).Draw(rt, "rows") {
			var row []string
			for _, c := range columns {
				if strings.HasPrefix(c.Name, "nullable") && rapid.Bool().Draw(rt, "empty") {
					row = append(row, "")
					continue
				}
				row = append(row, rapid.SampledFrom(map[Kind][]string{
					Whole:  {"0", "-9223372036854775808", "9223372036854775807", "42"},
					Number: {"0", "0.1", "-1e-300", "1e+21", "12345.6789"},
					Text:   {"a", " a ", "é\n", "1.50", "2024-02-29"},
				}[c.Kind]).Draw(rt, "cell"))
			}
			rows = append(rows, row)
		}
		f, got, err := readAll(written(t, columns, rows), -1)
		testkit.Must(t, err)
		for i, c := range f.Columns {
			testkit.Same(t, "column", names[i], c.Name)
		}
		testkit.Same(t, "rows", fmt.Sprint(rows), fmt.Sprint(got))
	})
}

// Other programs see the types: this is what the library's own reader reports.
func TestTypesThatAreWritten(t *testing.T) {
	columns := []Column{{Name: "z", Kind: Whole}, {Name: "nullable", Kind: Number}, {Name: "a", Kind: Text}}
	cells := [][]string{{"7", "", "x"}, {"-8", "0.5", "x"}}
	raw := written(t, columns, cells)
	f, err := pq.OpenFile(bytes.NewReader(raw), int64(len(raw)))
	testkit.Must(t, err)
	testkit.Same(t, "schema", "message table {\n\trequired int64 z (INT(64,true));\n\toptional double nullable;\n"+
		"\trequired binary a (STRING);\n}", f.Schema().String())
	r := pq.NewReader(f)
	rows := make([]pq.Row, 3)
	n, err := r.ReadRows(rows)
	if n != 2 || err != nil && err != io.EOF {
		t.Fatalf("%d rows (%v)", n, err)
	}
	testkit.Same(t, "first row", []string{"7", "<null>", "x"}, texts(rows[0]))
	testkit.Same(t, "second row", []string{"-8", "0.5", "x"}, texts(rows[1]))
	for _, c := range f.Metadata().RowGroups[0].Columns {
		testkit.Same(t, "compression", "ZSTD", c.MetaData.Codec.String())
	}
	if !bytes.Equal(written(t, columns, cells), raw) {
		t.Error("the same rows give another file")
	}
}

func texts(row pq.Row) (all []string) {
	for _, v := range slices.Clone(row) {
		all = append(all, v.String())
	}
	return all
}

func TestRowsThatCannotBeWritten(t *testing.T) {
	w := NewWriter(io.Discard, []Column{{Name: "n", Kind: Whole}, {Name: "x", Kind: Number}},
		func(int) bool { return false })
	for want, row := range map[string][]string{
		"1 cells for 2 columns": {"1"}, `row 1, column "n": an empty cell`: {"", "1"},
		`row 1, column "n": no whole number`: {"SECRET", "1"}, `row 1, column "x": no number`: {"1", "SECRET"},
	} {
		if err := w.Write(row); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v, want %q", row, err, want)
		}
	}
}
