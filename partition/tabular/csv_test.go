package tabular

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

func TestReadCSV(t *testing.T) {
	s := partitiontest.Clinic(t)
	table, err := ReadCSV(s, partitiontest.File("clinic", "visits.csv"), Options{})
	testkit.Must(t, err)
	e := math.NaN()
	cells, units := partitiontest.Rows(table)
	want := [][]float64{
		{e, 0, 0, e, 0, 0, e, 0},
		{e, 0, 120, 9.5, 100, 2, 1, 1},
		{e, 1, 64, -1, 12.5, e, 0, 0},
		{e, 0, 33, 0.25, 0.001, 1, 1, 1},
		{e, 1, 64, -1, 12.5, e, 0, 0},
		{e, 1, 64, -1, 12.5, e, 0, 0},
	}
	testkit.Same(t, "cells", want, cells, cmpopts.EquateNaNs())
	testkit.Same(t, "units", []string{"p1", "p1", "p2", "p3", "p4", "p4"}, units)
	if table.Schema() != s || table.Label(1) != 1 || table.Label(0) != 0 {
		t.Errorf("schema or labels are wrong")
	}
}

// Every spelling of a file gives the same table.
func TestSameTableFromOtherSpellings(t *testing.T) {
	s := partitiontest.Clinic(t)
	raw := testkit.Read(t, partitiontest.File("clinic", "visits.csv"))
	want, err := ReadCSV(s, partitiontest.File("clinic", "visits.csv"), Options{})
	testkit.Must(t, err)
	text := string(raw)
	crlf := strings.ReplaceAll(text, "\n", "\r\n")
	const mark = "\ufeff"
	turned := "outcome,smoker,grade,marker,dose,age,ward,patient\n" +
		"0.0,,1,0,,0,north,p1\n1,1,\"b,c\",1e2,+9.50,120.0,north,p1\n0,0,,12.5,-1,64,south,p2\n" +
		"1,1,2,.001,0.25,33,north,p3\n0,0,,12.5,-1,64,south,p4\n0,0,,12.5,-1,64,south,p4\n"
	for name, file := range map[string][]byte{
		"crlf":                   []byte(crlf),
		"byte order mark":        []byte(mark + text),
		"mark and crlf, zipped":  zipped(t, mark+crlf),
		"zipped":                 zipped(t, text),
		"no last line break":     []byte(strings.TrimSuffix(text, "\n")),
		"blank lines":            []byte(strings.Replace(text, "\n", "\n\n", 3) + "\n\n"),
		"other order and digits": []byte(turned),
		"zipped in two members":  append(zipped(t, text[:80]), zipped(t, text[80:])...),
		"clipped beyond bounds": []byte(strings.Replace(strings.Replace(text, ",100,", ",1e9,", 1), "p1,north,0,,0,",
			"p1,north,0,,-50,", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeCSV(s, bytes.NewReader(file), name, Options{})
			testkit.Must(t, err)
			partitiontest.SameTables(t, want, got)
		})
	}
}

const badSchema = `
columns:
  - {name: who, kind: integer, lower: 1, upper: 9999, role: unit}
  - {name: ward, kind: categorical, categories: [north, south], role: site}
  - {name: age, kind: integer, lower: 0, upper: 120}
  - {name: dose, kind: continuous, lower: -1, upper: 9.5}
  - {name: smoker, kind: binary, nullable: true}
  - {name: marker, kind: continuous, lower: 0, upper: 1000, clip: [0, 100]}
`

// Every bad table is one error with place and fix, and without the value.
// The bad values hold 7731 or "zebra", which no message may show.
func TestBadTables(t *testing.T) {
	s := partitiontest.Schema(t, badSchema)
	const header = "who,ward,age,dose,smoker,marker\n"
	const good = "1,north,50,1.5,1,3\n"
	for _, tc := range []struct {
		name, text string
		row, line  int
		column     string
		want       string
	}{
		{"empty", "", 0, 0, "", "the file is empty"},
		{"only a mark", "\ufeff", 0, 0, "", "the file is empty"},
		{"only line breaks", "\n\n\n", 0, 0, "", "the file is empty"},
		{"header only", header, 0, 0, "", "no row"},
		{"header only, crlf", "who,ward,age,dose,smoker,marker\r\n\r\n", 0, 0, "", "no row"},
		{"no header", "7731,north,50,1.5,1,3\n" + good, 0, 1, "", "none of the schema's column names"},
		{"unknown column", "who,ward,age,dose,smoker,marker,height\n1,north,50,1.5,1,3,180\n", 0, 1, "height",
			"not in the schema"},
		{"unknown column, maybe a record", "age,zebra7731,zebra,zebra2,zebra3\n1,2,3,4,5\n", 0, 1, "",
			"4 columns are not in the schema: column 2, column 3, column 4, column 5"},
		{"a comma too many", "who,ward,age,dose,smoker,marker,\n1,north,50,1.5,1,3,\n", 0, 1, "",
			"column 7 of the header has no name; give it"},
		{"blank name", "who,ward, ,age,dose,smoker,marker\n1,north,,50,1.5,1,3\n", 0, 1, "",
			"column 3 of the header has no name; give it"},
		{"missing column", "who,ward,age,dose,marker\n1,north,50,1.5,3\n", 0, 1, "smoker", "missing"},
		{"missing unit", "ward,age,dose,smoker,marker\nnorth,50,1.5,1,3\n", 0, 1, "who", "missing"},
		{"column twice", "who,ward,age,dose,smoker,marker,age\n1,north,50,1.5,1,3,50\n", 0, 1, "age", "twice"},
		{"integer above", header + good + "2,north,7731,1.5,1,3\n", 2, 3, "age", "from 0 to 120"},
		{"integer below", header + good + "2,north,-7731,1.5,1,3\n", 2, 3, "age", "from 0 to 120"},
		{"number above", header + "2,north,50,7731,1,3\n", 1, 2, "dose", "from -1 to 9.5"},
		{"number just above", header + "2,north,50,9.50000007731,1,3\n", 1, 2, "dose", "outside the bounds"},
		{"binary 2", header + "2,north,50,1,7731,3\n", 1, 2, "smoker",
			"expected 0 or 1; correct the cell, or correct the column's kind in the schema"},
		{"unknown category", header + "2,zebra,50,1,1,3\n", 1, 2, "ward", "not one of the schema's categories"},
		{"category with space", header + "2,north ,50,1,1,3\n", 1, 2, "ward", "not one of the schema's categories"},
		{"word for integer", header + "2,north,zebra,1,1,3\n", 1, 2, "age", "expected a whole number"},
		{"fraction for integer", header + "2,north,7.731,1,1,3\n", 1, 2, "age", "not a whole number"},
		{"word for number", header + "2,north,50,zebra,1,3\n", 1, 2, "dose", "expected a number"},
		{"two numbers", header + "2,north,50,7731 7731,1,3\n", 1, 2, "dose", "expected a number"},
		{"spaces", header + "2,north,50, 1,1,3\n", 1, 2, "dose", "spaces"},
		{"decimal comma", header + "2,north,50,\"7731,5\",1,3\n", 1, 2, "dose",
			`a number with a comma; remove thousands separators, or write csv: {decimal: ","} in the schema if`},
		{"hexadecimal", header + "2,north,0x7731,1,1,3\n", 1, 2, "age", "expected a whole number"},
		{"underscore", header + "2,north,5_0,1,1,3\n", 1, 2, "age", "expected a whole number"},
		{"too large for a float", header + "2,north,50,7731e999,1,3\n", 1, 2, "dose", "finite"},
		{"nan", header + "2,north,50,NaN,1,3\n", 1, 2, "dose", "missing value"},
		{"nan in a nullable column", header + "2,north,50,1,nan,3\n", 1, 2, "smoker", "missing value"},
		{"na", header + "2,north,50,NA,1,3\n", 1, 2, "dose", "missing value"},
		{"inf", header + "2,north,50,-Inf,1,3\n", 1, 2, "dose", "not a finite number"},
		{"inf under clip", header + "2,north,50,1,1,+Infinity\n", 1, 2, "marker", "not a finite number"},
		{"too large under clip", header + "2,north,50,1,1,1e999\n", 1, 2, "marker", "finite"},
		{"word under clip", header + "2,north,50,1,1,zebra\n", 1, 2, "marker", "expected a number"},
		{"empty cell", header + "2,north,,1,1,3\n", 1, 2, "age", "the cell is empty"},
		{"empty category", header + "2,,50,1,1,3\n", 1, 2, "ward", "the cell is empty"},
		{"empty unit", header + ",north,50,1,1,3\n", 1, 2, "who", "identifier is empty"},
		{"unit outside bounds", header + "77310,north,50,1,1,3\n", 1, 2, "who",
			"from 1 to 9999; correct the cell, or leave the column's kind out of the schema"},
		{"too few cells", header + good + "2,north,50,1,1\n", 2, 3, "", "6 cells"},
		{"too many cells", header + good + "2,north,50,1,1,3,7731\n", 2, 3, "", "6 cells"},
		{"quote in a cell", header + "2,nor\"th7731,50,1,1,3\n", 1, 2, "", "broken quotes"},
		{"quote left open", header + good + "2,\"zebra,50,1,1,3\n", 2, 3, "", "broken quotes"},
		{"line after quoted break", "who,ward,age,dose,smoker,\"marker\"\n1,north,50,1,1,\"3\"\n\n2,north,7731,1,1,3\n",
			2, 4, "age", "outside the bounds"},
		{"not a text", "\x00\x01\x02zebra\n", 0, 0, "", "there are control characters"},
		{"a PDF", "%PDF-1.7\nzebra\n", 0, 0, "", "this is a PDF file; open"},
		{"a title", "zebra\n\n\"zebra\n7731\"\n" + header + good, 0, 1, "",
			"the header is not the first line but line 5; remove the lines above"},
		{"rows with semicolons", header + good + "2;north;50;1;1;3\n", 2, 3, "",
			`the row has the delimiter ";", but the header has another; use`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := DecodeCSV(s, strings.NewReader(tc.text), "t.csv", Options{})
			var input *partition.InputError
			if !errors.As(err, &input) {
				t.Fatalf("error %v (%T), want an *InputError", err, err)
			}
			message := err.Error()
			if !strings.HasPrefix(message, "t.csv") || !strings.Contains(message, tc.want) || input.Fix == "" ||
				strings.Contains(message, "\n") {
				t.Errorf("error %q, want one line for t.csv with %q and a fix", message, tc.want)
			}
			if input.Row != tc.row || input.Line != tc.line || input.Column != tc.column {
				t.Errorf("row %d line %d column %q, want %d %d %q: %s", input.Row, input.Line, input.Column, tc.row,
					tc.line, tc.column, message)
			}
			for _, secret := range []string{"7731", "zebra"} {
				if strings.Contains(message, secret) {
					t.Errorf("the error holds a value: %s", message)
				}
			}
		})
	}
}

func TestErrorForm(t *testing.T) {
	s := partitiontest.Schema(t, badSchema)
	_, err := DecodeCSV(s, strings.NewReader("who,ward,age,dose,smoker,marker\n1,north,121,1,1,3\n"),
		"visits.csv", Options{})
	const want = `visits.csv, row 1 (line 2), column "age": outside the bounds, ` +
		`expected a whole number from 0 to 120; ` +
		`correct the cell, or add clip: [lo, hi] to the column, to move such values to the edge`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestBrokenGzip(t *testing.T) {
	s := partitiontest.Clinic(t)
	raw := testkit.Read(t, partitiontest.File("clinic", "visits.csv"))
	whole := zipped(t, string(raw))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	garbled := bytes.Clone(whole)
	garbled[12] ^= 0xff
	for name, file := range map[string][]byte{
		"cut in the header":   whole[:5],
		"cut in the data":     whole[:len(whole)/2],
		"cut at the checksum": whole[:len(whole)-3],
		"wrong checksum":      flipped,
		"garbled":             garbled,
		"trailing rubbish":    append(bytes.Clone(whole), "rubbish"...),
		"wrong method":        append([]byte{0x1f, 0x8b, 1}, whole[3:]...),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeCSV(s, bytes.NewReader(file), "t.csv.gz", Options{})
			var input *partition.InputError
			if !errors.As(err, &input) || !strings.Contains(err.Error(), "broken gzip data") ||
				input.Fix != partition.FixGzip {
				t.Errorf("error %v", err)
			}
		})
	}
}

type failingReader struct{ after int }

func (r *failingReader) Read(p []byte) (int, error) {
	if r.after <= 0 {
		return 0, errors.New("disk on fire")
	}
	n := copy(p[:min(len(p), r.after)], strings.Repeat("a,b\n", 1<<14))
	r.after -= n
	return n, nil
}

func TestUnreadableTables(t *testing.T) {
	s := partitiontest.Clinic(t)
	if _, err := ReadCSV(s, "testdata/none.csv", Options{}); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "testdata/none.csv: cannot read the table") {
		t.Errorf("missing file: %v", err)
	}
	var input *partition.InputError
	dir := t.TempDir()
	if _, err := ReadCSV(s, dir, Options{}); !errors.As(err, &input) || input.File != dir || input.Fix == "" {
		t.Errorf("a folder: %v", err)
	}
	closed := filepath.Join(t.TempDir(), "closed.csv")
	testkit.Must(t, os.WriteFile(closed, []byte("a\n"), 0))
	if os.Geteuid() != 0 { // root may read everything
		if _, err := ReadCSV(s, closed, Options{}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("no permission: %v", err)
		}
	}
	plain := partitiontest.Schema(t, "columns:\n  - {name: a, kind: categorical, categories: [a]}\n  - {name:"+
		" b, kind: categorical, categories: [b]}\n")
	for _, after := range []int{0, 1 << 15} {
		_, err := DecodeCSV(plain, &failingReader{after}, "t.csv", Options{})
		if !errors.As(err, &input) || !strings.Contains(err.Error(), "disk on fire") {
			t.Errorf("failure after %d bytes: %v", after, err)
		}
	}
}

func TestSites(t *testing.T) {
	s := partitiontest.Clinic(t)
	north, err := ReadCSV(s, partitiontest.File("clinic", "visits.csv"), Options{Site: "north"})
	testkit.Must(t, err)
	_, units := partitiontest.Rows(north)
	testkit.Same(t, "rows of north", []string{"p1", "p1", "p3"}, units)
	if _, err := ReadCSV(s, partitiontest.File("clinic", "visits.csv"), Options{Site: "west"}); err == nil ||
		!strings.Contains(err.Error(), "use one of: north, south") {
		t.Errorf("unknown site: %v", err)
	}
	const none = "patient,ward,age,dose,marker,grade,smoker,outcome\np1,north,0,,0,1,,0\n"
	if _, err := DecodeCSV(s, strings.NewReader(none), "t.csv", Options{Site: "south"}); err == nil ||
		!strings.Contains(err.Error(), "no row belongs") {
		t.Errorf("site without rows: %v", err)
	}
	plain := partitiontest.Schema(t, "columns:\n  - {name: a, kind: binary}\n")
	all, err := DecodeCSV(plain, strings.NewReader("a\n1\n0\n"), "t.csv", Options{Site: "anything"})
	if err != nil || all.Len() != 2 {
		t.Errorf("a schema without sites: %v", err)
	}
}

func TestReadOptionErrors(t *testing.T) {
	s := partitiontest.Clinic(t)
	for name, o := range map[string]Options{
		"turned":   {From: 0.5, To: 0.2},
		"empty":    {From: 0.5, To: 0.5},
		"negative": {From: -0.1, To: 0.2},
		"beyond":   {From: 0.5, To: 1.5},
		"nan":      {From: math.NaN(), To: 1},
	} {
		if _, err := ReadCSV(s, partitiontest.File("clinic", "visits.csv"), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Generated rows, which belong to nobody, read back, and their shares cover them.
func TestRowsWithoutUnits(t *testing.T) {
	s := partitiontest.Clinic(t)
	table, err := ReadCSV(s, partitiontest.File("clinic", "visits.csv"), Options{})
	testkit.Must(t, err)
	free := partition.NewTable(s)
	for row := range table.Len() {
		testkit.Must(t, free.Append(table.Cells(row), ""))
	}
	var b bytes.Buffer
	testkit.Must(t, WriteCSV(&b, free))
	if !strings.HasPrefix(b.String(), "patient,ward,age,dose,marker,grade,smoker,outcome\n,north,0,,0,1,,0\n") {
		t.Errorf("written as\n%s", b.String())
	}
	rows := 0
	for _, o := range []Options{{IgnoreUnit: true}, {IgnoreUnit: true, To: 0.5}, {IgnoreUnit: true, From: 0.5, To: 1}} {
		got, err := DecodeCSV(s, bytes.NewReader(b.Bytes()), "t.csv", o)
		testkit.Must(t, err)
		if rows += got.Len(); o.To == 0 {
			partitiontest.SameTables(t, free, got)
		}
	}
	if rows != 12 {
		t.Errorf("the file and its halves have %d rows, want 6 and 6", rows)
	}
	if _, err := partition.Assign(partition.Key{1}, free, 1, "patient"); err == nil ||
		!strings.Contains(err.Error(), "patient") {
		t.Errorf("assigning rows without units: %v", err)
	}
}

func TestNumbersAreWrittenShort(t *testing.T) {
	c := &partition.Column{Kind: partition.Continuous}
	for v, want := range map[float64]string{
		0.1: "0.1", 1e6: "1000000", 5.70: "5.7", 1e-7: "1e-07", 0.000001: "0.000001", 1e21: "1e+21",
		0: "0", -2.5: "-2.5", 1.0 / 3: "0.3333333333333333",
	} {
		if got := c.CellText(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
	if got := (&partition.Column{Kind: partition.Integer}).CellText(2e9); got != "2000000000" {
		t.Errorf("an integer is written %q", got)
	}
}

// Train and test files of the shared data sets read without a complaint and
// with the number of rows their schema states.
func TestSharedTables(t *testing.T) {
	if testing.Short() {
		t.Skip("reads all shared tables")
	}
	partitiontest.Shared(t)
	for _, name := range []string{"adult", "banknote", "boston_housing", "breast_cancer_wisconsin", "census1940",
		"cervical_cancer", "credit",
		"diabetes130", "epileptic_seizure", "flchain", "heart_disease", "iris", "isolet", "titanic"} {
		t.Run(name, func(t *testing.T) {
			s, err := partition.LoadSchema(partitiontest.Shared(t, name, "schema.yaml"))
			testkit.Must(t, err)
			for _, split := range []string{"train", "test"} {
				file := s.Files[split]
				table, err := ReadCSV(s, partitiontest.Shared(t, name, file.Path), Options{})
				testkit.Must(t, err)
				if table.Len() != file.Rows {
					t.Errorf("%s: %d rows, the schema says %d", split, table.Len(), file.Rows)
				}
			}
		})
	}
}

func FuzzDecodeCSV(f *testing.F) {
	s := partitiontest.Schema(f, badSchema)
	raw := testkit.Read(f, partitiontest.File("clinic", "schema.yaml"))
	other := partitiontest.Schema(f, string(raw))
	latin1 := partitiontest.Schema(f, "csv: {encoding: latin1, decimal: \",\"}\nignore: [remarks]"+badSchema)
	visits := testkit.Read(f, partitiontest.File("clinic", "visits.csv"))
	f.Add(visits)
	f.Add([]byte("who,ward,age,dose,smoker,marker\n1,north,50,1.5,,3\n"))
	f.Add([]byte("\ufeffwho,ward,age,dose,smoker,marker\r\n1,\"north\",-0,1e-3,,1e300\r\n"))
	f.Add([]byte("who,ward,age,dose,smoker,marker,weight\n1,north,50,1.5,,3,0.75\n2,north,51,1.5,,3,1.25\n"))
	f.Add([]byte("who,ward,age,dose,smoker,marker,weight\n1,north,50,1.5,,3,-1\n"))
	f.Add(zipped(f, string(visits)))
	f.Add([]byte("\xff\xfew\x00h\x00o\x00\n\x00"))
	f.Add([]byte("WHO;ward;Age;dose;smoker;marker;remarks\n1;north;50;1,5;;3;\xe9\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, s := range []*partition.Schema{s, other, latin1} {
			table, err := DecodeCSV(s, bytes.NewReader(text), "t.csv", Options{Weights: true})
			if err != nil {
				var input *partition.InputError
				if !errors.As(err, &input) {
					t.Fatalf("an error of another type: %v", err)
				}
				continue
			}
			// Whatever is read satisfies the schema, and reads back the same.
			copied := partition.NewTable(s)
			for row := range table.Len() {
				if err := copied.Append(table.Cells(row), table.Unit(row)); err != nil {
					t.Fatalf("a row that was read is refused: %v", err)
				}
			}
			weights := table.Weights()
			if weights != nil {
				if _, err := copied.WithWeights(weights); err != nil {
					t.Fatalf("weights that were read are refused: %v", err)
				}
				weights = meanOne(weights)
			}
			var b bytes.Buffer
			testkit.Must(t, WriteWeightedCSV(&b, copied, weights))
			again, err := DecodeCSV(s, &b, "again.csv", Options{Weights: true})
			if err != nil {
				t.Fatalf("does not read back: %v", err)
			}
			partitiontest.SameTables(t, table, again)
			if diff := cmp.Diff(weights, again.Weights()); diff != "" {
				t.Fatalf("weights read back: %s", diff)
			}
		}
	})
}
