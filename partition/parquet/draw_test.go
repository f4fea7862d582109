package parquet

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// sort is a sort of column that can be read, and how to draw a value and its text.
type sort struct {
	typ       pq.Node
	kind      Kind
	encodings []encoding.Encoding
	value     func(t *rapid.T) (pq.Value, string)
}

var (
	ofNumbers = []encoding.Encoding{&pq.Plain, &pq.DeltaBinaryPacked, &pq.RLEDictionary, &pq.ByteStreamSplit}
	ofFloats  = []encoding.Encoding{&pq.Plain, &pq.RLEDictionary, &pq.ByteStreamSplit}
	ofTexts   = []encoding.Encoding{&pq.Plain, &pq.DeltaLengthByteArray, &pq.DeltaByteArray, &pq.RLEDictionary}
	codecs    = []compress.Codec{&pq.Uncompressed, &pq.Snappy, &pq.Gzip, &pq.Zstd}
)

var sorts = map[string]sort{
	"bool": {pq.Leaf(pq.BooleanType), Truth, []encoding.Encoding{&pq.Plain, &pq.RLE},
		func(t *rapid.T) (pq.Value, string) {
			n := rapid.IntRange(0, 1).Draw(t, "bool")
			return pq.BooleanValue(n == 1), strconv.Itoa(n)
		}},
	"int32": {pq.Int(32), Whole, ofNumbers, func(t *rapid.T) (pq.Value, string) {
		n := rapid.OneOf(rapid.Int32(), rapid.Int32Range(-3, 3)).Draw(t, "int32")
		return pq.Int32Value(n), fmt.Sprint(n)
	}},
	"int64": {pq.Leaf(pq.Int64Type), Whole, ofNumbers, func(t *rapid.T) (pq.Value, string) {
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3)).Draw(t, "int64")
		return pq.Int64Value(n), fmt.Sprint(n)
	}},
	"uint32": {pq.Uint(32), Whole, ofNumbers[:3], func(t *rapid.T) (pq.Value, string) {
		n := rapid.Uint32().Draw(t, "uint32")
		return pq.Int32Value(int32(n)), fmt.Sprint(n)
	}},
	"uint64": {pq.Uint(64), Whole, ofNumbers[:3], func(t *rapid.T) (pq.Value, string) {
		n := rapid.Uint64().Draw(t, "uint64")
		return pq.Int64Value(int64(n)), fmt.Sprint(n)
	}},
	"decimal": {pq.Decimal(2, 9, pq.Int32Type), Number, ofNumbers[:3], func(t *rapid.T) (pq.Value, string) {
		n := rapid.Int32Range(0, 999).Draw(t, "decimal")
		return pq.Int32Value(n), fmt.Sprintf("%d.%02d", n/100, n%100)
	}},
	"date": {pq.Date(), Time, ofNumbers[:3], func(t *rapid.T) (pq.Value, string) {
		n := rapid.Int32Range(0, 30).Draw(t, "day")
		return pq.Int32Value(n), fmt.Sprintf("1970-01-%02d", n+1)
	}},
	"float": {pq.Leaf(pq.FloatType), Number, ofFloats, func(t *rapid.T) (pq.Value, string) {
		v := rapid.Float32().Draw(t, "float")
		return pq.FloatValue(v), strconv.FormatFloat(float64(v), 'g', -1, 32)
	}},
	"double": {pq.Leaf(pq.DoubleType), Number, ofFloats, func(t *rapid.T) (pq.Value, string) {
		v := rapid.Float64().Draw(t, "double")
		return pq.DoubleValue(v), strconv.FormatFloat(v, 'g', -1, 64)
	}},
	"text": {pq.String(), Text, ofTexts, func(t *rapid.T) (pq.Value, string) {
		text := rapid.OneOf(rapid.StringN(0, 20, -1), rapid.SampledFrom([]string{"", "north", "northern",
			"south"})).Draw(t, "text")
		return pq.ByteArrayValue([]byte(text)), text
	}},
}

// drawFile writes a table of random columns and returns the texts that must be read.
func drawFile(t *rapid.T) (file []byte, kinds []Kind, rows [][]string) {
	var names []string
	for name := range sorts {
		names = append(names, name)
	}
	slices.Sort(names)
	group := pq.Group{} // sorts columns alphabetically
	var columns []sort
	var optional []bool
	for i := range rapid.IntRange(1, 4).Draw(t, "columns") {
		of := sorts[rapid.SampledFrom(names).Draw(t, "sort")]
		node := pq.Compressed(pq.Encoded(of.typ, rapid.SampledFrom(of.encodings).Draw(t, "encoding")),
			rapid.SampledFrom(codecs).Draw(t, "codec"))
		optional = append(optional, rapid.Bool().Draw(t, "optional"))
		if optional[i] {
			node = pq.Optional(node)
		}
		columns = append(columns, of)
		group[fmt.Sprintf("c%d", i)] = node
		kinds = append(kinds, of.kind)
	}
	var b bytes.Buffer
	w := pq.NewWriter(&b, pq.NewSchema("rows", group), pq.DataPageVersion(rapid.IntRange(1, 2).Draw(t, "version")),
		pq.PageBufferSize(rapid.SampledFrom([]int{1, 64, 4096}).Draw(t, "page")),
		pq.MaxRowsPerRowGroup(rapid.Int64Range(1, 200).Draw(t, "group")),
		pq.DataPageStatistics(rapid.Bool().Draw(t, "statistics")))
	n := rapid.SampledFrom([]int{1, 2, 7, 40, 700}).Draw(t, "rows")
	repeat := rapid.IntRange(0, 3).Draw(t, "repeat")
	if n > 40 {
		repeat = 10 // repeated values, which need few draws
	}
	var row pq.Row
	for i := range n {
		if i == 0 || repeat == 0 || i%(8*repeat) == 0 {
			row = nil
			var want []string
			for j, c := range columns {
				if optional[j] && rapid.IntRange(0, 2).Draw(t, "null") == 0 {
					row, want = append(row, pq.NullValue().Level(0, 0, j)), append(want, "")
					continue
				}
				level := 0
				if optional[j] {
					level = 1
				}
				v, text := c.value(t)
				row, want = append(row, v.Level(0, level, j)), append(want, text)
			}
			rows = append(rows, want)
		} else {
			rows = append(rows, rows[i-1])
		}
		if _, err := w.WriteRows([]pq.Row{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), kinds, rows
}

// readAll reads every cell of a file; each row has at most most cells.
func readAll(b []byte, most int) (f *File, rows [][]string, err error) {
	f, err = Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	for cells, err := range f.Rows(nil) {
		if err != nil {
			return f, rows, err
		}
		if len(rows) == most {
			break
		}
		rows = append(rows, slices.Clone(cells))
	}
	return f, rows, nil
}

// checkNumbers compares a file's numbers with the texts of its cells, group by group.
func checkNumbers(t rapid.TB, f *File, rows [][]string) {
	all := func(int) bool { return true }
	for group, n := range f.Groups() {
		for row, err := range f.GroupRows(group, nil, all) {
			if len(rows) == 0 {
				return // all numbers were read
			}
			if err != nil {
				t.Fatalf("numbers: %v", err)
			}
			for i, text := range rows[0] {
				if !f.InNumbers(i) || math.IsInf(row.Numbers[i], 0) {
					if row.Texts[i] != text {
						t.Fatalf("column %d has the text %q, and beside numbers %q", i, text, row.Texts[i])
					}
					continue
				}
				want, err := strconv.ParseFloat(text, 64)
				if got := row.Numbers[i]; text == "" != math.IsNaN(got) || text != "" && (err != nil || got != want) {
					t.Fatalf("column %d of group %d of %d rows has %q, and the number %v", i, group, n, text, got)
				}
			}
			rows = rows[1:]
		}
	}
}

// small is a file of a few columns for tests that change bytes.
func small(t testing.TB, options ...pq.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	schema := pq.NewSchema("rows", pq.Group{
		"a": pq.Optional(pq.Leaf(pq.DoubleType)),
		"b": pq.Encoded(pq.Int(64), &pq.DeltaBinaryPacked),
		"c": pq.Compressed(pq.Encoded(pq.String(), &pq.RLEDictionary), &pq.Snappy),
		"d": pq.Compressed(pq.Optional(pq.Decimal(2, 20, pq.FixedLenByteArrayType(9))), &pq.Zstd),
		"e": pq.Compressed(pq.String(), &pq.Gzip),
	})
	w := pq.NewWriter(&b, append([]pq.WriterOption{schema}, options...)...)
	for i := range 40 {
		a := pq.DoubleValue(float64(i)/4).Level(0, 1, 0)
		d := pq.FixedLenByteArrayValue(append(make([]byte, 8), byte(i))).Level(0, 1, 3)
		if i%3 == 0 {
			a, d = pq.NullValue().Level(0, 0, 0), pq.NullValue().Level(0, 0, 3)
		}
		c := pq.ByteArrayValue([]byte([]string{"north", "south"}[i%2])).Level(0, 0, 2)
		e := pq.ByteArrayValue([]byte(strconv.Itoa(i*i))).Level(0, 0, 4)
		if _, err := w.WriteRows([]pq.Row{{a, pq.Int64Value(int64(i)).Level(0, 0, 1), c, d, e}}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}
