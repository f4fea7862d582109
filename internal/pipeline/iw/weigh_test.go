package iw

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/ratio"
)

// Weights by a discriminator leave each class its share of the rows, whatever constant the log-odds of a class
// have, and however large it is.
func TestWeightsWithinClasses(t *testing.T) {
	w := &weigher{
		s:    &pipeline.Session{Followed: pipeline.Followed{Problem: pipeline.Problem{Classes: 3}}},
		rows: pipeline.Rows{Classes: []int{0, 1, 0, 1, 0, 0}},
	}
	odds := []float64{1, -700, 2, -701, 0.5, -1}
	want := w.withinClasses(odds)
	sums, counts := make([]float64, 3), []float64{4, 2, 0}
	for i, c := range w.rows.Classes {
		sums[c] += math.Exp(want[i])
	}
	for c, sum := range sums {
		if math.Abs(sum-counts[c]) > 1e-9 {
			t.Errorf("class %d: weight %v of %v rows", c, sum, counts[c])
		}
	}
	if d := want[1] - want[3]; math.Abs(d-1) > 1e-9 || math.Abs(want[2]-want[0]-1) > 1e-9 {
		t.Errorf("log-weights %v", want)
	}
	for i, c := range w.rows.Classes {
		odds[i] += []float64{300, -20}[c]
	}
	for i, v := range w.withinClasses(odds) {
		if math.Abs(v-want[i]) > 1e-9 {
			t.Errorf("moved by a constant, row %d has %v, before %v", i, v, want[i])
		}
	}
}

// Weights of mean 1 have mean 1 after the cut, in the same order. No weight is above the bound times the mean,
// even if few rows have weight. Weights that are not cut keep their proportions, and no more is cut than
// necessary.
func TestBoundedWeights(t *testing.T) {
	few := make([]float64, 100)
	for i := range few {
		few[i] = -2000 // nothing, compared with the first
	}
	few[0] = 0
	for _, logs := range [][]float64{{-700, -1, -1, 2, -1, -1, 1, -700, -900, -700}, few, {3}, {1, 1, 1},
		{0, math.Log(3)}} {
		largest := slices.Max(ratio.SelfNormalized(logs))
		for _, bound := range []float64{0, 1, 1.5, 2, 3.5, 1e9} {
			cut := bounded(logs, bound)
			w := ratio.SelfNormalized(cut)
			if got := slices.Max(w); bound > 0 && got > bound*(1+1e-9) ||
				math.Abs(got-min(cmp.Or(bound, largest), largest)) > 1e-6*largest {
				t.Errorf("bound %v of %v: the largest weight is %v, was %v", bound, logs, got, largest)
			}
			for i := range logs {
				if cut[i] != logs[i] && cut[i] != slices.Max(cut) || cut[i] > logs[i] {
					t.Errorf("bound %v: log-weight %d of %v became %v", bound, i, logs, cut[i])
				}
			}
		}
	}
}
