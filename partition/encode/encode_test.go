package encode

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	"github.com/conclave-dp/conclave/partition/partitiontest/drawtest"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func TestEncodeByHand(t *testing.T) {
	s := partitiontest.Clinic(t)
	e := New(s)
	wantHeads := []Head{
		{Column: 1, Kind: HeadCategory, Offset: 0, Width: 2},
		{Column: 2, Kind: HeadNumber, Offset: 2, Width: 1},
		{Column: 3, Kind: HeadNumber, Offset: 3, Width: 1},
		{Column: 3, Kind: HeadMissing, Offset: 4, Width: 1},
		{Column: 4, Kind: HeadNumber, Offset: 5, Width: 1},
		{Column: 5, Kind: HeadCategory, Offset: 6, Width: 4},
		{Column: 6, Kind: HeadBinary, Offset: 10, Width: 1},
		{Column: 6, Kind: HeadMissing, Offset: 11, Width: 1},
	}
	testkit.Same(t, "heads", wantHeads, e.Heads())
	testkit.Same(t, "numbers", []int{2, 3, 5}, e.Numbers())
	wantNames := []string{"ward=north", "ward=south", "age", "dose", "dose=", "marker", "grade=1", "grade=2",
		"grade=b,c", "grade=", "smoker", "smoker="}
	testkit.Same(t, "names", wantNames, e.Names())
	table, err := tabular.ReadCSV(s, partitiontest.File("clinic", "visits.csv"), tabular.Options{})
	testkit.Must(t, err)
	x := e.Encode(table)
	if x.Width != 12 || e.Width() != 12 || x.Len() != 6 || len(x.Features) != 72 {
		t.Fatalf("shape: width %d, %d rows, %d features", x.Width, x.Len(), len(x.Features))
	}
	testkit.Same(t, "classes", []int{0, 1, 0, 1, 0, 0}, x.Classes)
	marker := math.Log1p(12.5) / math.Log1p(100)
	for row, want := range map[int][]float32{
		0: {1, 0, 0, 0.5, 1, 0, 1, 0, 0, 0, 0.5, 1},
		1: {1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 0},
		2: {0, 1, 64. / 120, 0, 0, float32(marker), 0, 0, 0, 1, 0, 0},
	} {
		if diff := cmp.Diff(want, x.Row(row)); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", row, diff)
		}
	}
	for row := range table.Len() {
		cells, err := e.Decode(x.Row(row), x.Classes[row], table.Unit(row))
		testkit.Must(t, err)
		if diff := cmp.Diff(table.Cells(row), cells, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("row %d comes back as (-want +got):\n%s", row, diff)
		}
	}
}

// A numeric label is a feature, and there are no classes.
func TestEncodeRegression(t *testing.T) {
	s := partitiontest.Schema(t, "label: y\ncolumns:\n  - {name: a, kind: binary}\n  - {name: y, kind: continuous,"+
		" lower: 0, upper: 50}\n")
	table := partition.NewTable(s)
	testkit.Must(t, table.Append([]float64{1, 12.5}, ""))
	x := New(s).Encode(table)
	testkit.Same(t, "encoded", &Encoded{Width: 2, Features: []float32{1, 0.25}, Classes: []int{0}}, x)
	if _, err := New(s).Decode(x.Row(0), 1, ""); err == nil {
		t.Errorf("class 1 of a regression is accepted")
	}
}

// Decoding makes any generator output valid for the schema.
func TestDecodeAnyFeatures(t *testing.T) {
	e := New(partitiontest.Clinic(t))
	nan := math.NaN()
	for _, tc := range []struct {
		name     string
		features []float32
		want     []float64
	}{
		{"beyond the range", []float32{0.1, 0.2, 7, -3, 0, 1e30, 0, 0, 0.1, 0, 9, 0},
			[]float64{nan, 1, 120, -1, 100, 2, 1, 1}},
		{"ties and thresholds", []float32{0.5, 0.5, 0.4999, 0.5, 0.4999, 0, 0, 0, 0, 0, 0.5, 0.4999},
			[]float64{nan, 0, 60, 4.25, 0, 0, 1, 1}},
		{"empty", []float32{0, 1, 0, 0, 0.5, 0, 0.3, 0.2, 0.1, 0.4, 1, 0.5}, []float64{nan, 1, 0, nan, 0, nan, nan, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cells, err := e.Decode(tc.features, 1, "")
			testkit.Must(t, err)
			testkit.Same(t, "cells", tc.want, cells, cmpopts.EquateNaNs())
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	e := New(partitiontest.Clinic(t))
	with := func(i int, v float64) []float32 {
		f := make([]float32, e.Width())
		f[i] = float32(v)
		return f
	}
	for _, tc := range []struct {
		name     string
		features []float32
		class    int
		want     string
	}{
		{"nan", with(2, math.NaN()), 0, "feature 2 (age)"},
		{"nan in a category", with(9, math.NaN()), 0, "(grade=)"},
		{"infinite", with(5, math.Inf(1)), 0, "(marker)"},
		{"too few", make([]float32, 11), 0, "11 features, expected 12"},
		{"class beyond", make([]float32, 12), 2, "no class 2"},
		{"class negative", make([]float32, 12), -1, "no class -1"},
	} {
		if _, err := e.Decode(tc.features, tc.class, ""); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", tc.name, err, tc.want)
		}
	}
	numbered := New(partitiontest.Schema(t, "columns:\n  - {name: id, kind: integer, lower: 1, upper: 9, role:"+
		" unit}\n  - {name: a, kind: binary}\n"))
	if _, err := numbered.Decode([]float32{1}, 0, "9.0"); err != nil {
		t.Errorf("a good unit: %v", err)
	}
	if _, err := numbered.Decode([]float32{1}, 0, "10"); err == nil {
		t.Errorf("a unit outside the bounds is accepted")
	}
}

// Encoding and decoding restores cells: categories, binary, empty cells and integers exactly, continuous ones and
// integers of more than 2^23 values within float32 precision.
func TestEncodeDecodeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawtest.Schema(t)
		table := drawtest.Table(t, s, 0, 10)
		e := New(s)
		x := e.Encode(table)
		if x.Len() != table.Len() || len(x.Features) != x.Len()*e.Width() {
			t.Fatalf("shape: %d rows, %d features", x.Len(), len(x.Features))
		}
		for _, f := range x.Features {
			if !(f >= 0 && f <= 1) {
				t.Fatalf("a feature outside [0,1]: %v", f)
			}
		}
		packing := e.Packing()
		for row := range x.Len() {
			packed := make([]byte, packing.Bytes())
			packing.Pack(packed, x.Row(row))
			if got := packing.Append(nil, packed); !slices.Equal(got, x.Row(row)) {
				t.Fatalf("packed, %v comes back as %v", x.Row(row), got)
			}
		}
		back := partition.NewTable(s)
		for row := range table.Len() {
			cells, err := e.Decode(x.Row(row), x.Classes[row], table.Unit(row))
			if err != nil {
				t.Fatal(err)
			}
			// Append checks that the row is valid for the schema.
			drawtest.AppendRow(t, back, cells, table.Unit(row))
			for i := range s.Columns {
				c := &s.Columns[i]
				want, got := table.Cells(row)[i], cells[i]
				tolerance := 0.0
				if c.Kind == partition.Continuous {
					sc := newScaler(c)
					tolerance = sc.span * 0x1p-20
					if sc.log {
						tolerance *= 1 + want
					}
				} else if steps := newScaler(c).span; steps > 1<<23 { // such as the seconds of a year
					tolerance = math.Ceil(steps * 0x1p-24)
				}
				same := math.IsNaN(want) && math.IsNaN(got) || math.Abs(want-got) <= tolerance
				if !same {
					t.Fatalf("column %s: %v comes back as %v", c.Name, want, got)
				}
			}
		}
		// Decoding a second time changes nothing.
		for row, again := range encodeDecode(t, e, back) {
			for i := range again {
				a, b := back.Cells(row)[i], again[i]
				if s.Columns[i].Kind != partition.Continuous && a != b && !(math.IsNaN(a) && math.IsNaN(b)) {
					t.Fatalf("column %d changes on the second turn", i)
				}
			}
		}
	})
}

func encodeDecode(t *rapid.T, e *Encoder, table *partition.Table) (rows [][]float64) {
	x := e.Encode(table)
	for row := range x.Len() {
		cells, err := e.Decode(x.Row(row), x.Classes[row], table.Unit(row))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, cells)
	}
	return rows
}

// A category of a column with many takes four bytes.
func TestPackManyCategories(t *testing.T) {
	var names []string
	for i := range 300 {
		names = append(names, strconv.Itoa(i))
	}
	e := New(partitiontest.Schema(t, "columns:\n  - {name: a, kind: categorical, categories: ["+
		strings.Join(names, ", ")+"]}\n"))
	for _, at := range []int{0, 255, 256, 299} {
		row, packing := make([]float32, 300), e.Packing()
		row[at] = 1
		packed := make([]byte, packing.Bytes())
		packing.Pack(packed, row)
		if got := packing.Append(nil, packed); len(packed) != 4 || !slices.Equal(got, row) {
			t.Errorf("category %d in %d bytes comes back as %v", at, len(packed), got)
		}
	}
}

// Decimals are restored as written if float32 can carry them.
func TestDecimalsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.SampledFrom([]float64{0.5, 1, 12, 30, 600, 99999}).Draw(t, "span")
		log := rapid.Bool().Draw(t, "log")
		c := &partition.Column{Kind: partition.Continuous, Lower: 0, Upper: span, Scale: partition.Linear}
		slope := span
		if log {
			c.Scale = partition.Log
			slope = math.Log1p(span) * (1 + span) // the steepest
		}
		digits := max(0, int(math.Floor(-math.Log10(slope*0x1p-24)-1e-9)))
		unit := math.Pow10(digits)
		v := float64(rapid.Int64Range(0, int64(span*unit)).Draw(t, "v")) / unit
		sc := newScaler(c)
		if got := sc.decode(float64(float32(sc.encode(v)))); got != v {
			t.Fatalf("%v of %d digits in 0..%v comes back as %v", v, digits, span, got)
		}
	})
}

func TestScaleIsMonotoneAndKeepsEdges(t *testing.T) {
	for _, c := range []partition.Column{
		{Kind: partition.Continuous, Lower: 0, Upper: 1e-3, Scale: partition.Linear},
		{Kind: partition.Continuous, Lower: -1e300, Upper: 5e307, Scale: partition.Linear},
		{Kind: partition.Continuous, Lower: 0.1234567, Upper: 0.7654321, Scale: partition.Linear},
		{Kind: partition.Continuous, Lower: 3, Upper: 1e6, Scale: partition.Log},
		{Kind: partition.Integer, Lower: 0, Upper: 99999, Scale: partition.Log},
		{Kind: partition.Integer, Lower: -5, Upper: 2000000, Scale: partition.Linear},
	} {
		s := newScaler(&c)
		previous := math.Inf(-1)
		for i := range 1001 {
			v := s.decode(float64(i) / 1000)
			if !(v >= previous && v >= c.Lower && v <= c.Upper) {
				t.Fatalf("%+v: place %d/1000 gives %v after %v", c, i, v, previous)
			}
			previous = v
		}
		if s.encode(c.Lower) != 0 || s.encode(c.Upper) != 1 {
			t.Errorf("%+v: edges are encoded as %v and %v", c, s.encode(c.Lower), s.encode(c.Upper))
		}
		if c.Kind == partition.Integer {
			for _, v := range []float64{c.Lower, c.Lower + 1, 7, 4711, c.Upper - 1, c.Upper} {
				if got := s.decode(float64(float32(s.encode(v)))); got != v {
					t.Errorf("%+v: %v comes back as %v", c, v, got)
				}
			}
		}
	}
}

// Shared tables are restored cell by cell; a number with more than four decimals (a few cells were filled with a
// mean) to five of them.
func TestSharedRoundTrip(t *testing.T) {
	for _, name := range []string{"flchain", "adult", "heart_disease", "titanic", "diabetes130"} {
		t.Run(name, func(t *testing.T) {
			s, err := partition.LoadSchema(partitiontest.Shared(t, name, "schema.yaml"))
			testkit.Must(t, err)
			table, err := tabular.ReadCSV(s, partitiontest.Shared(t, name, "test.csv.gz"), tabular.Options{})
			testkit.Must(t, err)
			e := New(s)
			x := e.Encode(table)
			for row := range x.Len() {
				cells, err := e.Decode(x.Row(row), x.Classes[row], "")
				testkit.Must(t, err)
				for i, want := range table.Cells(row) {
					few := math.Round(want*1e4)/1e4 == want
					near := !few && math.Abs(cells[i]-want) < 1e-5*max(1, s.Columns[i].Upper/10)
					if cells[i] != want && !near && !(math.IsNaN(want) && math.IsNaN(cells[i])) {
						t.Fatalf("row %d, column %s does not come back", row+1, s.Columns[i].Name)
					}
				}
			}
		})
	}
}

// Features of images are their pixels in column order, wherever the label is.
func TestEncoderImage(t *testing.T) {
	const (
		head  = "label: y\nformat: idx\nimage: {height: 2, width: 3, channels: 2}\ncolumns:\n"
		label = "  - {name: y, kind: categorical, categories: [a, b]}\n"
		pixel = "  - {name: p, kind: integer, lower: 0, upper: 255, repeat: 12}\n"
	)
	for name, columns := range map[string]string{
		"label first": label + pixel,
		"label last":  pixel + label,
		"label within": strings.Replace(pixel, "12", "5", 1) + label + "  - {name: q, kind: integer, lower:" +
			" 0, upper: 255, repeat: 7}\n",
	} {
		s := partitiontest.Schema(t, head+columns)
		e := New(s)
		if diff := cmp.Diff(&partition.Image{Height: 2, Width: 3, Channels: 2}, e.Image()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		last := -1
		for i, h := range e.Heads() {
			if h.Offset != i || h.Width != 1 || h.Column <= last || h.Column == s.LabelColumn() {
				t.Errorf("%s: pixel %d is %+v", name, i, h)
			}
			last = h.Column
		}
		e.Image().Height = 7
		if s.Image.Height != 2 {
			t.Errorf("%s: the schema's image can be changed", name)
		}
	}
	table := strings.Replace(head, "format: idx\nimage: {height: 2, width: 3, channels: 2}\n", "", 1) + label + pixel
	if image := New(partitiontest.Schema(t, table)).Image(); image != nil {
		t.Errorf("a table has images of shape %+v", *image)
	}
}

// Values are the features of a column's whole numbers.
func TestValues(t *testing.T) {
	s := partitiontest.Schema(t, `columns:
  - {name: a, kind: integer, lower: 2, upper: 6}
  - {name: b, kind: continuous, lower: 2, upper: 6}
  - {name: c, kind: integer, lower: 0, upper: 3, scale: log}
`)
	e := New(s)
	if got := e.Values(0, 5); !slices.Equal(got, []float32{0, 0.25, 0.5, 0.75, 1}) {
		t.Errorf("values %v of 2 to 6", got)
	}
	if e.Values(0, 4) != nil || e.Values(1, 100) != nil {
		t.Error("values of too many, or of no whole numbers")
	}
	if got := e.Values(2, 4); len(got) != 4 || got[0] != 0 || got[1] != 0.5 || got[3] != 1 {
		t.Errorf("values %v of 0 to 3 on a log scale", got)
	}
}
