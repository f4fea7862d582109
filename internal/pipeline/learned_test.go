package pipeline

import (
	"strings"
	"testing"
)

// The public number of units is the configured one, or the sum of the paid counts.
func TestRecordsAreOfTheCounts(t *testing.T) {
	for _, c := range []struct {
		set    int
		counts []float64
		want   int
	}{
		{0, []float64{10.4, 20.3}, 31}, {5, []float64{10, 20}, 5}, {7, nil, 7}, {0, []float64{-4, 1}, 1},
		{0, []float64{1e30}, MostUnits}, {0, []float64{0.2}, 1},
	} {
		if got, err := (&Learned{Counts: c.counts}).Records(c.set); err != nil || got != c.want {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
	if _, err := new(Learned).Records(0); err == nil || !strings.Contains(err.Error(), "set the public number") {
		t.Errorf("without counts: %v", err)
	}
}
