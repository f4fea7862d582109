package tabular

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// smallChunks makes files of a few lines many chunks.
func smallChunks(t *testing.T) {
	before := chunkBytes
	chunkBytes = 32
	t.Cleanup(func() { chunkBytes = before })
}

const visits = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: c, kind: categorical, categories: [p, q]}
constraints:
  - {never: {c: q, x: 1}}
`

// All that is wrong with a file is one error, which counts, names rows, and has no value.
func TestAllViolationsAreTold(t *testing.T) {
	s := partitiontest.Schema(t, visits)
	text := "x,c\n0.5,p\nsecret,secret\n0.5\n0.5,q\n1,q\n0.5,r\n" + strings.Repeat("7731,p\n", 7) + "0.5,p\n"
	const want = `t.csv: 10 cells cannot be read, in 2 columns; 2 rows cannot be taken:
  column "x": 1 time not a finite decimal number, expected a number from 0 to 1 (row 2); ` +
		`correct the cell, or correct the column's kind in the schema
  column "x": 7 times outside the bounds, expected a number from 0 to 1 (rows 7, 8, 9, 10, 11, ...); ` +
		`correct the cell, or add clip: [lo, hi] to the column, to move such values to the edge
  column "c": 2 times the cell is not one of the schema's categories (rows 2, 6); ` +
		`correct its spelling (case and spaces count), or add the category to the schema
  whole rows: 1 time the row does not have the 2 cells of the header (row 3); complete or quote the row's cells
  whole rows: 1 time the row breaks constraint 1 of the schema (row 5); ` +
		`correct the row, or correct the constraint`
	check := func() {
		_, err := DecodeCSV(s, strings.NewReader(text), "t.csv", Options{})
		var found *Violations
		if !errors.As(err, &found) || err.Error() != want {
			t.Fatalf("error\n%v\nwant\n%s", err, want)
		}
		var input *partition.InputError
		if found.Rows != 14 || !errors.As(err, &input) || input.Row != 2 || input.Line != 3 || input.Column != "x" {
			t.Errorf("%d rows, the first violation is %+v", found.Rows, input)
		}
	}
	check()
	smallChunks(t)
	check()
}

// What ends a file stands behind what was found before it.
func TestBrokenEndAfterViolations(t *testing.T) {
	s := partitiontest.Schema(t, visits)
	smallChunks(t)
	good := strings.Repeat("0.5,p\n", 20)
	for end, want := range map[string]string{
		"0.5,\"p\n" + good: "  the rest could not be read: t.csv, row 42 (line 43): broken quotes; ",
		"0.5,p\xff\n":      "  the rest could not be read: t.csv, line 43: the text is not UTF-8; save",
	} {
		_, err := DecodeCSV(s, strings.NewReader("x,c\n"+good+"2,p\n"+good+end+"3,p\n"), "t.csv", Options{})
		const found = "t.csv: 1 cell cannot be read, in 1 column:\n  column \"x\": 1 time outside the bounds," +
			" expected a number from 0 to 1 (row 21); "
		if err == nil || !strings.HasPrefix(err.Error(), found) || !strings.Contains(err.Error(), "\n"+want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		_, err = DecodeCSV(s, strings.NewReader("x,c\n"+good+good+"1,p\n"+end), "t.csv", Options{})
		if want = strings.TrimPrefix(want, "  the rest could not be read: "); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// An error of very many kinds names the first ones.
func TestManyKindsOfViolations(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: x, kind: binary, repeat: 50}]")
	var header, row []string
	for i := range 50 {
		header, row = append(header, fmt.Sprintf("x_%d", i)), append(row, "2")
	}
	text := strings.Join(header, ",") + "\n" + strings.Join(row, ",") + "\n"
	_, err := DecodeCSV(s, strings.NewReader(text), "t.csv", Options{})
	if lines := strings.Split(fmt.Sprint(err), "\n"); len(lines) != 22 || lines[0] !=
		"t.csv: 50 cells cannot be read, in 50 columns:" ||
		lines[21] != "  and 30 kinds more, shown after these are fixed" {
		t.Errorf("error %v", err)
	}
}

// Rows, order and units are the same whatever the size of chunks.
func TestChunksKeepTheOrder(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: who, role: unit}, {name: n, kind: integer, lower: 0, upper: 999}]")
	var text strings.Builder
	text.WriteString("who,n,weight\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "\"p\n%d\",%d,1\n", i, i)
	}
	want, err := DecodeCSV(s, strings.NewReader(text.String()), "t.csv", Options{Weights: true})
	testkit.Must(t, err)
	smallChunks(t)
	got, err := DecodeCSV(s, strings.NewReader(text.String()), "t.csv", Options{Weights: true})
	testkit.Must(t, err)
	partitiontest.SameTables(t, want, got)
	if got.Len() != 1000 || got.Unit(999) != "p\n999" || got.Cells(999)[1] != 999 || len(got.Weights()) != 1000 {
		t.Errorf("%d rows, the last of unit %q", got.Len(), got.Unit(999))
	}
}

// Parquet files and other sources tell all that is wrong, too, and no cell.
func TestViolationsOfOtherSources(t *testing.T) {
	s := partitiontest.Schema(t, visits)
	header := []string{"x", "c"}
	rows := [][]string{{"0.5", "p"}, {"7731", "secret"}, {"7732", "p"}, {"1", "q"}}
	const found = ": 3 cells cannot be read, in 2 columns; 1 row cannot be taken:\n"
	const x = "\n  column \"x\": 2 times outside the bounds, expected a number from 0 to 1 (rows 2, 3); "
	columns := map[string]parquetColumn{"x": asDouble, "c": asText}
	_, err := decodeParquet(s, writeParquet(t, columns, header, rows), Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "t.parquet"+found) ||
		!strings.Contains(err.Error(), x) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Parquet: %v", err)
	}
	b, err := NewBuilder(s, "sql", FromSQL, namedColumns(header), Options{})
	testkit.Must(t, err)
	for _, row := range rows {
		testkit.Must(t, b.Add(row))
	}
	if _, err = b.Table(); err == nil || !strings.HasPrefix(err.Error(), "sql"+found) ||
		!strings.Contains(err.Error(), x) {
		t.Errorf("a query: %v", err)
	}
	lost := errors.New("the connection is lost")
	if err := b.Broken(lost); !errors.Is(err, lost) || !strings.HasPrefix(err.Error(), "sql"+found) ||
		!strings.HasSuffix(err.Error(), "\n  the rest could not be read: the connection is lost") {
		t.Errorf("a query that is cut: %v", err)
	}
}

// Quotes that are never closed do not make all of a large file one record in memory.
func TestRecordsHaveABound(t *testing.T) {
	before := maxRecordBytes
	maxRecordBytes = 1 << 16
	t.Cleanup(func() { maxRecordBytes = before })
	smallChunks(t)
	s := partitiontest.Schema(t, visits)
	endless := io.MultiReader(strings.NewReader("x,c\n1,\"p"), &failingReader{maxRecordBytes + 1})
	_, err := DecodeCSV(s, endless, "t.csv", Options{})
	const want = "t.csv, row 1 (line 2): broken quotes: a record of more than 64 MiB; "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}
