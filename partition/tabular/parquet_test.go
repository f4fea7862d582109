package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	writer "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/partitiontest/drawtest"
)

// parquetColumn is how a test writes a column: its node, and a cell's value, of an
// empty cell null.
type parquetColumn struct {
	node  writer.Node
	value func(text string) writer.Value
}

func parseFloat(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return v
}

func parseInt(text string) int64 {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// The ways in which programs write columns.
var (
	asDouble = parquetColumn{writer.Leaf(writer.DoubleType),
		func(s string) writer.Value { return writer.DoubleValue(parseFloat(s)) }}
	asFloat = parquetColumn{writer.Leaf(writer.FloatType),
		func(s string) writer.Value { return writer.FloatValue(float32(parseFloat(s))) }}
	asInt64 = parquetColumn{writer.Leaf(writer.Int64Type),
		func(s string) writer.Value { return writer.Int64Value(parseInt(s)) }}
	asInt32 = parquetColumn{writer.Int(32), func(s string) writer.Value {
		return writer.Int32Value(int32(parseInt(s)))
	}}
	asBool = parquetColumn{writer.Leaf(writer.BooleanType),
		func(s string) writer.Value { return writer.BooleanValue(s == "1") }}
	asText    = parquetColumn{writer.String(), func(s string) writer.Value { return writer.ByteArrayValue([]byte(s)) }}
	asDecimal = parquetColumn{writer.Decimal(2, 18, writer.Int64Type),
		func(s string) writer.Value { return writer.Int64Value(100 * parseInt(s)) }}
	asList = parquetColumn{writer.List(writer.Int(32)),
		func(s string) writer.Value { return writer.Int32Value(int32(parseInt(s))) }}
	asDate = parquetColumn{writer.Date(), func(s string) writer.Value { return writer.Int32Value(int32(parseInt(s))) }}
)

// writeParquet writes rows of texts; a row's column is missing where it is in no column.
func writeParquet(t rapid.TB, columns map[string]parquetColumn, header []string, rows [][]string,
	options ...writer.WriterOption) []byte {
	t.Helper()
	group := writer.Group{}
	for name, c := range columns {
		group[name] = writer.Optional(c.node)
	}
	schema := writer.NewSchema("rows", group)
	var b bytes.Buffer
	w := writer.NewWriter(&b, append([]writer.WriterOption{schema}, options...)...)
	for _, row := range rows {
		out := make(writer.Row, len(columns))
		for i, name := range header {
			leaf, ok := schema.Lookup(name)
			if !ok {
				continue
			}
			out[leaf.ColumnIndex] = writer.NullValue().Level(0, 0, leaf.ColumnIndex)
			if row[i] != "" {
				out[leaf.ColumnIndex] = columns[name].value(row[i]).Level(0, 1, leaf.ColumnIndex)
			}
		}
		if _, err := w.WriteRows([]writer.Row{out}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decodeParquet(s *partition.Schema, b []byte, o Options) (*partition.Table, error) {
	return DecodeParquet(s, bytes.NewReader(b), int64(len(b)), "t.parquet", o)
}

// Parquet's own dates and times are those of the schema, and an identifier may be anything.
func TestParquetDatesAndIdentifiers(t *testing.T) {
	s := partitiontest.Schema(t, `columns:
  - {name: visit, kind: date, lower: 2015-01-01, upper: 2024-12-31, format: DD.MM.YYYY}
  - {name: seen, kind: datetime, lower: 2015-01-01, upper: 2024-12-31, resolution: hour}
  - {name: compact, kind: date, lower: 2015-01-01, upper: 2024-12-31, format: YYYYMMDD}
  - {name: id, kind: identifier}
`)
	asTime := parquetColumn{writer.Timestamp(writer.Millisecond),
		func(s string) writer.Value { return writer.Int64Value(1000 * parseInt(s)) }}
	columns := map[string]parquetColumn{"visit": asDate, "seen": asTime, "compact": asInt32, "id": asList}
	b := writeParquet(t, columns, []string{"visit", "seen", "compact", "id"},
		[][]string{{"19782", "1709211600", "20240229", "7"}})
	table, err := decodeParquet(s, b, Options{})
	testkit.Must(t, err)
	var csv bytes.Buffer
	testkit.Must(t, WriteCSV(&csv, table))
	testkit.Same(t, "rows", "visit,seen,compact,id\n29.02.2024,2024-02-29 13:00,20240229,1\n", csv.String())
	columns["visit"] = asDouble
	_, err = decodeParquet(s, writeParquet(t, columns, []string{"visit", "seen", "compact", "id"},
		[][]string{{"1.5", "1709211600", "20240229", "7"}}), Options{})
	if err == nil || !strings.Contains(err.Error(), `column "visit": the file has numbers with a fraction there, `+
		"the schema dates") {
		t.Errorf("error is %v", err)
	}
}

// The same rows as CSV and as Parquet are the same table, partitions and manifest,
// whichever types hold them.
func TestParquetIsTheSameAsCSV(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		s := drawtest.Schema(t)
		table := drawtest.Table(t, s, 1, 30)
		columns := map[string]parquetColumn{}
		for i := range s.Columns {
			c := &s.Columns[i]
			ways := []parquetColumn{asInt32, asInt64, asDouble, asDecimal, asText}
			switch c.Declared() {
			case partition.Continuous:
				ways = []parquetColumn{asDouble, asText}
			case partition.Binary:
				ways = append(ways, asBool, asFloat)
			case partition.Categorical, partition.Text, partition.Date, partition.Datetime, partition.Code,
				partition.Identifier:
				ways = []parquetColumn{asText}
			}
			columns[c.Name] = rapid.SampledFrom(ways).Draw(t, "type of "+c.Name)
		}
		header, rows := partitiontest.Texts(table)
		var csv bytes.Buffer
		if err := WriteCSV(&csv, table); err != nil {
			t.Fatal(err)
		}
		o := Options{From: 0.3, To: 1}
		if rapid.Bool().Draw(t, "all") {
			o = Options{}
		}
		want, wantErr := DecodeCSV(s, &csv, "t.csv", o)
		got, err := decodeParquet(s, writeParquet(tb, columns, header, rows, writer.MaxRowsPerRowGroup(7)), o)
		if (wantErr == nil) != (err == nil) {
			t.Fatalf("CSV: %v, Parquet: %v", wantErr, err)
		}
		if err != nil {
			return // no row is in the share
		}
		partitiontest.SameTables(tb, want, got)
		sameManifests(t, want, got)
	})
}

// The example that the demo runs on, with the types that programs give its columns.
func TestTheExampleAsParquet(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "flchain")
	s, err := partition.LoadSchema(filepath.Join(dir, "schema.yaml"))
	testkit.Must(t, err)
	want, err := Read(s, filepath.Join(dir, "train.csv.gz"), Options{})
	testkit.Must(t, err)
	header, rows := partitiontest.Texts(want)
	columns := map[string]parquetColumn{}
	for i := range s.Columns {
		as := map[partition.ColumnKind]parquetColumn{partition.Continuous: asDouble, partition.Integer: asInt64,
			partition.Binary: asBool, partition.Categorical: asText}[s.Columns[i].Kind]
		as.node = writer.Compressed(as.node, []compress.Codec{&writer.Snappy, &writer.Gzip, &writer.Zstd}[i%3])
		columns[s.Columns[i].Name] = as
	}
	raw := writeParquet(t, columns, header, rows, writer.MaxRowsPerRowGroup(1000))
	for _, o := range []Options{{}, {From: 0.5, To: 1}} {
		want, err := Read(s, filepath.Join(dir, "train.csv.gz"), o)
		testkit.Must(t, err)
		got, err := decodeParquet(s, raw, o)
		testkit.Must(t, err)
		partitiontest.SameTables(t, want, got)
		a, b := manifestOf(t, want, partition.UnitRecord), manifestOf(t, got, partition.UnitRecord)
		testkit.Same(t, "", a, b)
	}
}

// The visits of the test data as other programs may write them; a 32-bit float is the
// decimal number that it was.
func TestReadParquetByContentAndName(t *testing.T) {
	s := partitiontest.Clinic(t)
	want := testkit.Value(ReadCSV(s, partitiontest.File("clinic", "visits.csv"), Options{}))
	header, rows := partitiontest.Texts(want)
	columns := map[string]parquetColumn{}
	for i := range s.Columns {
		columns[s.Columns[i].Name] = map[partition.ColumnKind]parquetColumn{partition.Continuous: asFloat,
			partition.Integer: asInt64, partition.Binary: asBool, partition.Categorical: asText,
			partition.Text: asText}[s.Columns[i].Kind]
	}
	raw := writeParquet(t, columns, header, rows, writer.DataPageVersion(1))
	dir := t.TempDir()
	for _, name := range []string{"visits.parquet", "visits", "visits.csv", "VISITS.PARQUET"} {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
		got, err := Read(s, path, Options{})
		testkit.Must(t, err)
		partitiontest.SameTables(t, want, got)
	}
	text := filepath.Join(dir, "text.parquet")
	testkit.Must(t, os.WriteFile(text, []byte("a,b\n1,2\n"), 0o600))
	if _, err := Read(s, text, Options{}); err == nil || !strings.Contains(err.Error(),
		"text.parquet: cannot read the table: the Parquet file is damaged") {
		t.Errorf("a CSV file by the name of a Parquet file: %v", err)
	}
	// A column of that name makes no CSV file one of Parquet.
	par := partitiontest.Schema(t, "columns: [{name: PAR1, kind: binary}]")
	path := filepath.Join(dir, "par.csv")
	testkit.Must(t, os.WriteFile(path, []byte("PAR1\n1\n"), 0o600))
	if table, err := Read(par, path, Options{}); err != nil || table.Len() != 1 {
		t.Errorf("a CSV file that begins like Parquet: %v", err)
	}
}

func TestParquetImagesAndWeights(t *testing.T) {
	s := partitiontest.Schema(t, partitiontest.ImageSchema)
	x := someImages(1)
	table, err := x.Table(s)
	testkit.Must(t, err)
	header, rows := partitiontest.Texts(table)
	columns := map[string]parquetColumn{}
	for i := range s.Columns {
		columns[s.Columns[i].Name] = asInt32
	}
	columns[s.Columns[s.LabelColumn()].Name] = asText
	path := filepath.Join(t.TempDir(), "images.parquet")
	testkit.Must(t, os.WriteFile(path, writeParquet(t, columns, header, rows), 0o600))
	if got, err := ReadImages(s, path, Options{}); err != nil || cmp.Diff(x, got) != "" {
		t.Errorf("images: %v", err)
	}
	s = partitiontest.Schema(t, "columns: [{name: x, kind: binary}]")
	raw := writeParquet(t, map[string]parquetColumn{"x": asBool, "weight": asDouble}, []string{"x", "weight"},
		[][]string{{"1", "0.5"}, {"0", "1.5"}})
	weighted, err := decodeParquet(s, raw, Options{Weights: true})
	if err != nil || cmp.Diff([]float64{0.5, 1.5}, weighted.Weights()) != "" {
		t.Errorf("weights: %v", err)
	}
	if _, err := decodeParquet(s, raw, Options{}); err == nil ||
		!strings.Contains(err.Error(), `column "weight": the schema has no such column`) {
		t.Errorf("weights that are not expected: %v", err)
	}
}

// One bad file for each rule, with what is said of it; no error holds a value.
func TestParquetErrors(t *testing.T) {
	s := partitiontest.Schema(t, `columns:
  - {name: who, role: unit}
  - {name: age, kind: integer, lower: 0, upper: 120}
  - {name: dose, kind: continuous, lower: 0, upper: 10, nullable: true}
  - {name: ward, kind: categorical, categories: [north, south]}
  - {name: ill, kind: binary}
`)
	header := []string{"who", "age", "dose", "ward", "ill", "more"}
	good := func() map[string]parquetColumn {
		return map[string]parquetColumn{"who": asText, "age": asInt32, "dose": asDouble, "ward": asText, "ill": asBool}
	}
	one := []string{"p1", "50", "1.5", "north", "1", "4711"}
	for _, c := range []struct {
		want   string
		column string // with another type, or with none
		as     parquetColumn
		cell   string // in the second row
	}{
		{`column "dose": the column is missing from the file; add it to the file`, "dose", parquetColumn{}, ""},
		{`column "more": the column is not in the schema; remove it from the file`, "more", asInt64, ""},
		{`column "age": the file has dates or times there, the schema numbers; write it as`, "age", asDate, ""},
		{`column "ward": the file has truth values there, the schema categories`, "ward", asBool, ""},
		{`column "who": the file has numbers with a fraction there, the schema identifiers`, "who", asDouble, "0.4711"},
		{`column "ill": the file has a list or another nested column there, the schema 0 or 1`, "ill", asList, ""},
		{`row 2, column "ill": not a finite decimal number, expected 0 or 1`, "ill", asText, "x4711"},
		{`row 2, column "age": outside the bounds, expected a whole number from 0 to 120; correct the cell`, "age",
			asInt32, "4711"},
		{`row 2, column "age": not a whole number`, "age", asDouble, "47.11"},
		{`row 2, column "age": not a number but a word for a missing value`, "age", asDouble, "nan"},
		{`row 2, column "dose": not a finite number`, "dose", asFloat, "-inf"},
		{`row 2, column "age": the cell is empty; fill it`, "age", asInt32, "null"},
		{`row 2, column "who": the privacy unit's identifier is empty`, "who", asText, "null"},
		{`row 2, column "ward": the cell is not one of the schema's categories`, "ward", asText, "4711"},
		{`row 2, column "ill": outside the bounds, expected 0 or 1`, "ill", asInt64, "4711"},
	} {
		columns := good()
		row := append([]string(nil), one...)
		for i, name := range header {
			if name != c.column {
				continue
			}
			if columns[name] = c.as; c.as.node == nil {
				delete(columns, name)
			}
			switch c.cell {
			case "":
				row[i] = "1"
			case "null":
				row[i] = ""
			default:
				row[i] = c.cell
			}
		}
		first := append([]string(nil), one...)
		if c.cell == "" || c.column == "who" {
			first = row
		}
		if c.column == "who" && c.cell == "null" {
			first = one
		}
		_, err := decodeParquet(s, writeParquet(t, columns, header, [][]string{first, row}), Options{})
		var input *partition.InputError
		if !errors.As(err, &input) || !strings.HasPrefix(err.Error(), "t.parquet, "+c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "47") {
			t.Errorf("the error holds a value: %v", err)
		}
	}
	none := partitiontest.Schema(t, "columns: [{name: z, kind: binary}]")
	whole := writeParquet(t, good(), header, [][]string{one, one}, writer.DataPageStatistics(false))
	for want, b := range map[string][]byte{
		"t.parquet: the table has none of the schema's columns; name the columns": whole,
		"t.parquet: cannot read the table: the Parquet file is damaged":           whole[:len(whole)-9],
		"t.parquet: there is no row; check": writeParquet(t,
			map[string]parquetColumn{"z": asBool}, []string{"z"}, nil),
	} {
		if _, err := decodeParquet(none, b, Options{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	torn := bytes.Clone(whole)
	torn[bytes.Index(torn, []byte("north"))] ^= 1
	if _, err := decodeParquet(s, torn, Options{}); err == nil ||
		!strings.Contains(err.Error(),
			`t.parquet, column "ward": cannot read row group 1: the Parquet file is damaged`) ||
		!strings.Contains(err.Error(), "copy or write the file again") {
		t.Errorf("a damaged page: %v", err)
	}
	if _, err := ReadParquet(s, filepath.Join(t.TempDir(), "nowhere.parquet"), Options{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Whole numbers of all 64 bits, and units by number, are what their digits are in CSV.
func TestParquetWholeNumbers(t *testing.T) {
	s := partitiontest.Schema(t, "columns: [{name: who, role: unit}, {name: n, kind: continuous, lower: -1.0e+20,"+
		" upper: 1.0e+20}, {name: c, kind: categorical, categories: ['7', '18446744073709551615']}]")
	unsigned := parquetColumn{writer.Uint(64), func(s string) writer.Value {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			panic(err)
		}
		return writer.Int64Value(int64(v))
	}}
	header := []string{"who", "n", "c"}
	rows := [][]string{{"18446744073709551615", "9007199254740993", "7"},
		{"1", fmt.Sprint(math.MinInt64), "18446744073709551615"}}
	got, err := decodeParquet(s, writeParquet(t, map[string]parquetColumn{"who": unsigned, "n": asInt64, "c": unsigned},
		header, rows), Options{})
	testkit.Must(t, err)
	text := strings.Join(header, ",") + "\n"
	for _, row := range rows {
		text += strings.Join(row, ",") + "\n"
	}
	want, err := DecodeCSV(s, strings.NewReader(text), "t.csv", Options{})
	testkit.Must(t, err)
	partitiontest.SameTables(t, want, got)
}
