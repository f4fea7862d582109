package run

import (
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
)

// Weights by a discriminator leave each class the share that it has among the rows, whatever
// constant the log-odds of a class have, and however large.
func TestWeightsWithinClasses(t *testing.T) {
	w := &weigher{Job: &Job{Plan: &Plan{Plan: plan.Plan{Classes: 3}}}, rows: pipeline.Rows{Classes: []int{0, 1, 0, 1, 0, 0}}}
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

// The public number of units is what was set, else what the paid counts add up to.
func TestRecordsAreOfTheCounts(t *testing.T) {
	for _, c := range []struct {
		set    int
		counts []float64
		want   int
	}{
		{0, []float64{10.4, 20.3}, 31}, {5, []float64{10, 20}, 5}, {7, nil, 7}, {0, []float64{-4, 1}, 1}, {0, []float64{1e30}, pipeline.MostUnits}, {0, []float64{0.2}, 1},
	} {
		if got, err := records(c.set, &pipeline.Learned{Counts: c.counts}); err != nil || got != c.want {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
	if _, err := records(0, &pipeline.Learned{}); err == nil || !strings.Contains(err.Error(), "set the public number") {
		t.Errorf("without counts: %v", err)
	}
}
