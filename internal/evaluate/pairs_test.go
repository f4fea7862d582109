package evaluate

import (
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const pairSchema = `name: pairs
task: none
columns:
  - {name: x, kind: continuous, lower: 0, upper: 100, nullable: true}
  - {name: y, kind: continuous, lower: -10, upper: 10}
  - {name: c, kind: categorical, categories: [a, b], nullable: true}
  - {name: d, kind: binary, lower: 0, upper: 1}
`

func close(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || !(math.Abs(*got-want) <= 1e-12) {
		t.Errorf("%s is %v, want %v", what, show(got), want)
	}
}

func show(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}

func pairOf(t *testing.T, pairs []PairTrend, a, b string) PairTrend {
	t.Helper()
	for _, p := range pairs {
		if p.Columns == [2]string{a, b} {
			return p
		}
	}
	t.Fatalf("no pair of %s and %s", a, b)
	return PairTrend{}
}

func TestComparePairsByHand(t *testing.T) {
	s := schemaOf(t, pairSchema)
	empty := math.NaN()
	real := tableOf(t, s, []float64{0, 0, 0, 0}, []float64{10, 1, 0, 0}, []float64{20, 2, 1, 1},
		[]float64{empty, -9, empty, 1})
	synthetic := tableOf(t, s, []float64{0, 2, 0, 1}, []float64{10, 1, 1, 0}, []float64{50, -3, 1, 1})
	pairs, notes, err := ComparePairs(real, synthetic, nil, 0)
	if err != nil || len(pairs) != 6 || len(notes) != 0 {
		t.Fatalf("%d pairs, notes %q, %v", len(pairs), notes, err)
	}
	// The real correlation leaves out the row without x; the synthetic points lie on a line.
	xy := pairOf(t, pairs, "x", "y")
	close(t, "real correlation", xy.Real, 1)
	close(t, "synthetic correlation", xy.Synthetic, -1)
	close(t, "score", xy.Score, 0)
	v := pairOf(t, pairs, "c", "d").Association
	if v == nil || v.Measure != CramersV {
		t.Fatalf("the association of two categories is %+v", v)
	}
	close(t, "Cramér's V, real", &v.Real, 1)
	close(t, "Cramér's V, synthetic", &v.Synthetic, 0.5)
	if xd := pairOf(t, pairs, "x", "d").Association; xd == nil || xd.Measure != CorrelationRatio {
		t.Fatalf("the association of a number and a category is %+v", xd)
	} else { // numbers 0, 10 and 20, where 20 has its own category: means 5 and 20 about 10, 150 of 200
		close(t, "correlation ratio, real", &xd.Real, math.Sqrt(0.75))
	}
	// Real cells aa00: (a,0) twice, (b,1), (empty,1): 1/2, 1/4, 1/4. Synthetic: (a,1), (b,0), (b,1).
	cd := pairOf(t, pairs, "c", "d")
	if cd.Measure != ContingencySimilarity || cd.Real != nil {
		t.Errorf("%+v", cd)
	}
	close(t, "score of categories", cd.Score, 1-(0.5+math.Abs(0.25-1.0/3)+0.25+1.0/3+1.0/3)/2)
	// Bins of the real x, 2 wide from 0 to 20: real (0,0), (5,0), (9,1), (empty,1); synthetic
	// (0,1), (5,0) and, beyond the range, (9,1).
	xd := pairOf(t, pairs, "x", "d")
	close(t, "score of a number beside a category", xd.Score, 1-(0.25+(1.0/3-0.25)+(1.0/3-0.25)+0.25+1.0/3)/2)
}

func TestComparePairsCountsAWeightOfTwoTwice(t *testing.T) {
	s := schemaOf(t, pairSchema)
	real := tableOf(t, s, []float64{0, 0, 0, 0}, []float64{10, 3, 0, 0}, []float64{20, 2, 1, 1})
	rows := [][]float64{{0, 2, 0, 1}, {10, 1, 1, 0}, {50, -3, 1, 1}, {60, 8, 0, 0}}
	once := tableOf(t, s, rows...)
	twice := tableOf(t, s, rows[0], rows[1], rows[1], rows[2])
	got, _, err := ComparePairs(real, once, []float64{3, 6, 3, 0}, 0)
	testkit.Must(t, err)
	want, _, err := ComparePairs(real, twice, nil, 0)
	testkit.Must(t, err)
	for k := range want {
		close(t, strings.Join(want[k].Columns[:], " and "), got[k].Score, *want[k].Score)
	}
}

func TestComparePairsWithoutACorrelation(t *testing.T) {
	s := schemaOf(t, pairSchema)
	empty := math.NaN()
	real := tableOf(t, s, []float64{0, 0, 0, 0}, []float64{10, 3, 0, 0})
	for name, synthetic := range map[string]*partition.Table{
		"constant": tableOf(t, s, []float64{7, 0, 0, 0}, []float64{7, 3, 0, 0}),
		"empty":    tableOf(t, s, []float64{empty, 0, 0, 0}, []float64{empty, 3, 0, 0}),
	} {
		for _, tables := range [][2]*partition.Table{{real, synthetic}, {synthetic, real}} {
			pairs, notes, err := ComparePairs(tables[0], tables[1], nil, 0)
			testkit.Must(t, err)
			if p := pairOf(t, pairs, "x", "y"); p.Score != nil || len(notes) != 1 ||
				!strings.Contains(notes[0], "1 pairs of numbers have no correlation") {
				t.Errorf("%s: %+v, notes %q", name, p, notes)
			}
			if p := pairOf(t, pairs, "x", "d"); p.Score == nil {
				t.Errorf("%s: a number beside a category has no score", name)
			}
		}
	}
	one := schemaOf(t, "name: one\ntask: none\ncolumns:\n  - {name: x, kind: binary, lower: 0, upper: 1}\n")
	if pairs, notes, err := ComparePairs(tableOf(t, one, []float64{1}), tableOf(t, one, []float64{1}), nil,
		0); err != nil || len(pairs) != 0 || len(notes) != 1 {
		t.Errorf("one column: %v, %q, %v", pairs, notes, err)
	}
}
