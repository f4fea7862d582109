package run

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/pipeline"
)

// A systematic draw has each place as often as its expectation rounded down or up, in order,
// and nothing that weighs nothing.
func TestSystematicDraws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0, 5), 1, 30).Draw(t, "weights")
		for i := range weights {
			if rapid.Bool().Draw(t, "zero") {
				weights[i] = 0
			}
		}
		weights[rapid.IntRange(0, len(weights)-1).Draw(t, "some")] = 1
		n := rapid.IntRange(0, 300).Draw(t, "n")
		places := systematic(weights, n, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		if len(places) != n {
			t.Fatalf("%d of %d", len(places), n)
		}
		total, count := 0.0, make([]int, len(weights))
		for i, at := range places {
			count[at]++
			if i > 0 && at < places[i-1] {
				t.Fatalf("out of order: %v", places)
			}
		}
		for _, w := range weights {
			total += w
		}
		for i, w := range weights {
			if expected := w / total * float64(n); math.Abs(float64(count[i])-expected) >= 1+1e-9 || w == 0 && count[i] > 0 {
				t.Fatalf("place %d of weight %v was drawn %d times, expected %v", i, w, count[i], expected)
			}
		}
	})
}

// Each place is drawn as often as it weighs: over 4,000 draws of one, the count of each is
// within 6 standard deviations but for a chance of 1e-8. The seed is fixed.
func TestSystematicDrawsHaveTheirExpectation(t *testing.T) {
	weights, count := []float64{3, 0, 1, 2}, make([]float64, 4)
	const draws = 4000
	rng := rand.New(rand.NewPCG(1, 2))
	for range draws {
		count[systematic(weights, 1, rng)[0]]++
	}
	for i, w := range weights {
		p := w / 6
		if off := math.Abs(count[i] - draws*p); off > 6*math.Sqrt(draws*p*(1-p)) {
			t.Errorf("place %d: %v of %d, want %v", i, count[i], draws, draws*p)
		}
	}
}

// Weights by a discriminator leave each class the share that it has among the rows, whatever
// constant the log-odds of a class have, and however large.
func TestWeightsWithinClasses(t *testing.T) {
	w := &weigher{Job: &Job{Plan: &Plan{Classes: 3}}, rows: rows{classes: []int{0, 1, 0, 1, 0, 0}}}
	odds := []float64{1, -700, 2, -701, 0.5, -1}
	want := w.withinClasses(odds)
	sums, counts := make([]float64, 3), []float64{4, 2, 0}
	for i, c := range w.rows.classes {
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
	for i, c := range w.rows.classes {
		odds[i] += []float64{300, -20}[c]
	}
	for i, v := range w.withinClasses(odds) {
		if math.Abs(v-want[i]) > 1e-9 {
			t.Errorf("moved by a constant, row %d has %v, before %v", i, v, want[i])
		}
	}
}

// The public number of units is what was set, else what the paid counts add up to.
func TestRecordsAreOfTheCounts(t *testing.T) {
	for _, c := range []struct {
		set    int
		counts []float64
		want   int
	}{
		{0, []float64{10.4, 20.3}, 31}, {5, []float64{10, 20}, 5}, {7, nil, 7}, {0, []float64{-4, 1}, 1}, {0, []float64{1e30}, maxRecords}, {0, []float64{0.2}, 1},
	} {
		if got, err := records(c.set, &pipeline.Learned{Counts: c.counts}); err != nil || got != c.want {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
	if _, err := records(0, &pipeline.Learned{}); err == nil || !strings.Contains(err.Error(), "set the public number") {
		t.Errorf("without counts: %v", err)
	}
}
