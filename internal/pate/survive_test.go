package pate

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The figures follow from the tails by hand: 2.326 = Phi^-1(0.99).
func TestTeachersToSurvive(t *testing.T) {
	for _, c := range []struct {
		query       privacy.Event
		classes     int
		probability float64
		want        int64
	}{
		// 2.3263 * 141.42 = 328.99
		{privacy.Event{Kind: privacy.GNMax, Sigma: 100}, 2, 0.99, 329},
		{privacy.Event{Kind: privacy.ConfidentGNMax, Sigma1: 1, Sigma2: 10, Threshold: 5}, 2, 0.99, 33}, // 32.9
		// 3.0902 * 141.42 = 437.03
		{privacy.Event{Kind: privacy.GNMax, Sigma: 100}, 11, 0.99, 438},
		// (2+3.7)/4 e^-3.7 = 0.0352; 36: 0.0383
		{privacy.Event{Kind: privacy.LNMax, Lambda: 0.1}, 2, 0.95, 37},
	} {
		got, err := TeachersToSurvive(c.query, c.classes, c.probability)
		testkit.Must(t, err)
		if c.query.Kind == privacy.LNMax {
			lost := func(n float64) float64 { return (2 + 0.1*n) / 4 * math.Exp(-0.1*n) }
			if lost(float64(got)) > 0.05 || lost(float64(got-1)) <= 0.05 {
				t.Errorf("%d teachers lose with %v, one fewer with %v", got, lost(float64(got)), lost(float64(got-1)))
			}
			continue
		}
		if got != c.want {
			t.Errorf("%+v: %d teachers, want %d", c, got, c.want)
		}
	}
	for name, query := range map[string]privacy.Event{"no noise": {Kind: privacy.GNMax},
		"no votes": {Kind: privacy.Laplace, Epsilon: 1}} {
		if n, err := TeachersToSurvive(query, 2, 0.9); err == nil {
			t.Errorf("%s: %d teachers", name, n)
		}
	}
	if _, err := TeachersToSurvive(privacy.Event{Kind: privacy.GNMax, Sigma: 1}, 1, 0.9); err == nil {
		t.Error("one class was accepted")
	}
	if _, err := TeachersToSurvive(privacy.Event{Kind: privacy.GNMax, Sigma: 1}, 2, math.NaN()); err == nil {
		t.Error("a probability that is none was accepted")
	}
}
