package evaluate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestCompareMarginalsByHand(t *testing.T) {
	s := schemaOf(t, pairSchema)
	empty := math.NaN()
	real := tableOf(t, s, []float64{0, 0, 0, 0}, []float64{4, 0, 0, 0}, []float64{100, 0, 1, 1},
		[]float64{empty, 0, empty, 1})
	// x: 0 and 4 share the first of 20 bins; y is equal; c: a 1/2, b 1/2; d: 1 throughout.
	synthetic := tableOf(t, s, []float64{1, 0, 0, 1}, []float64{96, 0, 1, 1})
	got, notes, err := CompareMarginals(real, synthetic, nil, MarginalOptions{})
	if err != nil || len(got) != 3 || len(notes) != 0 {
		t.Fatalf("%+v, %q, %v", got, notes, err)
	}
	one := got[0]
	// x and c: empty 1/4 against 0, and b 1/4 against 1/2: 1/4 each. d: 1/2.
	if one.Ways != 1 || one.Sets != 4 || one.Worst != 0.5 || !slices.Equal(one.Widest, []string{"d"}) ||
		math.Abs(one.Mean-(0.25+0+0.25+0.5)/4) > 1e-12 {
		t.Errorf("1-way: %+v", one)
	}
	// Of three columns: real (0,0,0) twice, (19,1,1), (empty,empty,1); synthetic (0,0,1), (19,1,1).
	if three := got[2]; three.Ways != 3 || three.Sets != 4 || three.Worst != 0.75 || len(three.Widest) != 3 ||
		three.Widest[2] != "d" {
		t.Errorf("3-way: %+v", three)
	}
	if got[1].Sets != 6 || got[1].Worst < one.Worst || got[2].Worst < got[1].Worst {
		t.Errorf("more columns cannot be closer: %+v", got)
	}
	weighted, _, err := CompareMarginals(real, synthetic, []float64{2, 1}, MarginalOptions{})
	testkit.Must(t, err)
	twice, _, err := CompareMarginals(real, synthetic.Subset([]int{0, 0, 1}), nil, MarginalOptions{})
	testkit.Must(t, err)
	for k := range twice {
		if math.Abs(weighted[k].Mean-twice[k].Mean) > 1e-12 || math.Abs(weighted[k].Worst-twice[k].Worst) > 1e-12 {
			t.Errorf("a weight of 2 gives %+v, the row twice %+v", weighted[k], twice[k])
		}
	}
}

func TestCompareMarginalsSamplesSets(t *testing.T) {
	train, test := shared(t, "flchain")
	o := MarginalOptions{Sets: 20, Seed: 7}
	first, notes, err := CompareMarginals(test, train, nil, o)
	testkit.Must(t, err)
	if first[0].Sets != 9 || first[1].Sets != 20 || first[2].Sets != 20 || len(notes) != 2 ||
		!strings.Contains(notes[1], "20 of the 84 sets") {
		t.Errorf("%+v, %q", first, notes)
	}
	if again, _, _ := CompareMarginals(test, train, nil, o); again[2].Mean != first[2].Mean {
		t.Error("the same seed gives another sample")
	}
	o.Seed = 8
	if other, _, _ := CompareMarginals(test, train, nil, o); other[2].Mean == first[2].Mean {
		t.Error("another seed gives the same sample")
	}
	for _, bad := range []MarginalOptions{{Bins: -1}, {Bins: 1 << 20}, {Sets: -1}} {
		if _, _, err := CompareMarginals(test, train, nil, bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestColumnSets(t *testing.T) {
	sets, all := columnSets(4, 2, 100, 0)
	want := [][]int{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}
	if all != 6 || !slices.EqualFunc(sets, want, slices.Equal) {
		t.Errorf("%v of %v", sets, all)
	}
	if sets, all = columnSets(3, 3, 1, 0); all != 1 || len(sets) != 1 {
		t.Errorf("%v of %v", sets, all)
	}
	sets, all = columnSets(700, 3, 500, 1)
	if all != 700*699*698/6 || len(sets) != 500 {
		t.Errorf("%d of %v", len(sets), all)
	}
	for i, set := range sets {
		if !(set[0] < set[1] && set[1] < set[2]) || i > 0 && slices.Compare(sets[i-1], set) >= 0 {
			t.Errorf("set %d is %v", i, set)
		}
	}
}

func TestBins(t *testing.T) {
	b := Bins{number: true, lo: -1, hi: 1, count: 4}
	for v, want := range map[float64]int32{-1: 0, -0.5: 1, -0.51: 0, 0: 2, 0.99: 3, 1: 3, 5: 3, -7: 0} {
		if got := b.Code(v); got != want {
			t.Errorf("%v is in bin %d, want %d", v, got, want)
		}
	}
	if got := b.Code(math.NaN()); got != 4 {
		t.Errorf("an empty cell is in bin %d", got)
	}
	if got := (Bins{number: true, lo: -1.7e308, hi: 1.7e308, count: 2}).Code(1); got != 1 {
		t.Errorf("of a huge range: bin %d", got)
	}
	if got := (Bins{number: true, lo: 3, hi: 3, count: 10}).Code(3); got != 5 {
		t.Errorf("of a constant: bin %d", got)
	}
}

// The mean is over the drawn sets, not over all sets.
func TestCompareMarginalsOfASampleOfSets(t *testing.T) {
	s := schemaOf(t, pairSchema)
	real, synthetic := tableOf(t, s, []float64{0, -10, 0, 0}), tableOf(t, s, []float64{100, 10, 1, 1})
	marginals, _, err := CompareMarginals(real, synthetic, nil, MarginalOptions{Sets: 2})
	testkit.Must(t, err)
	for _, m := range marginals {
		if m.Sets != 2 || m.Mean != 1 || m.Worst != 1 {
			t.Errorf("tables without a common value: %+v", m)
		}
	}
}
