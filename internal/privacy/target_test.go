package privacy

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// templates are events whose noise is to be found.
var templates = []Event{
	{Kind: Gaussian, Sensitivity: 2, Count: 50},
	{Kind: SubsampledGaussian, Rate: 0.02, Count: 500},
	{Kind: GNMax, Count: 1000},
	{Kind: ConfidentGNMax, Threshold: 100, Sigma1: 1.5, Sigma2: 1, Asked: 200, Answered: 120},
	{Kind: LNMax, Count: 100},
	{Kind: Laplace, Count: 3},
	{Kind: Exponential, Count: 20},
}

func TestCalibrateMeetsItsTarget(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, template := range templates {
		for _, target := range []Budget{{Epsilon: 0.3, Delta: 1e-6}, {Epsilon: 5, Delta: 1e-5}} {
			e, err := Calibrate(template, target)
			if err != nil {
				t.Errorf("%s: %v", template.Kind, err)
				continue
			}
			claim := mustAccount(t, []Event{e}, target.Delta)
			if claim.Epsilon > target.Epsilon || claim.Epsilon < target.Epsilon*(1-1e-4) {
				t.Errorf("%s: %+v costs %v, the target is %v", template.Kind, e, claim.Epsilon, target.Epsilon)
			}
			if e.Kind == ConfidentGNMax && math.Abs(e.Sigma1/e.Sigma2-1.5) > 1e-12 {
				t.Errorf("sigmas %v and %v are not in the proportion asked for", e.Sigma1, e.Sigma2)
			}
			n, err := MaxQueries(e, target)
			asked := max(template.Count, template.Asked)
			// An unanswered confident query costs less than the answered ones
			// that MaxQueries counts.
			if e.Kind == ConfidentGNMax {
				asked = n
			}
			if err != nil || n != asked {
				t.Errorf("%s: %d queries fit, %d were asked for (%v)", template.Kind, n, asked, err)
			}
		}
	}
}

func TestCalibrateRefuses(t *testing.T) {
	ok := Budget{Epsilon: 1, Delta: 1e-5}
	for name, c := range map[string]struct {
		template Event
		target   Budget
	}{
		"no epsilon":     {Event{Kind: GNMax, Count: 1}, Budget{Delta: 1e-5}},
		"NaN delta":      {Event{Kind: GNMax, Count: 1}, Budget{Epsilon: 1, Delta: math.NaN()}},
		"no count":       {Event{Kind: GNMax}, ok},
		"no kind":        {Event{Count: 1}, ok},
		"no proportion":  {Event{Kind: ConfidentGNMax, Asked: 1}, ok},
		"no rate":        {Event{Kind: SubsampledGaussian, Count: 1}, ok},
		"no sensitivity": {Event{Kind: Gaussian, Count: 1}, ok},
	} {
		if e, err := Calibrate(c.template, c.target); err == nil {
			t.Errorf("%s: calibrated to %+v", name, e)
		}
	}
	if _, err := Calibrate(Event{Kind: GNMax, Count: 1 << 60}, Budget{Epsilon: 1e-12, Delta: 1e-18}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("hopeless target: %v", err)
	}
	for _, template := range templates {
		if e, err := Calibrate(template, Budget{Epsilon: 1e300, Delta: 1e-5}); err == nil || !strings.Contains(err.Error(), "protects nobody") {
			t.Errorf("epsilon 1e300: %+v, %v", e, err)
		}
	}
	if _, err := MaxQueries(Event{Kind: GNMax, Sigma: 1}, Budget{Epsilon: 0.01, Delta: 1e-9}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("one query too many: %v", err)
	}
	for _, query := range []Event{
		{Kind: Laplace, Epsilon: 5}, {Kind: LNMax, Lambda: 3}, {Kind: Exponential, Epsilon: 9},
		{Kind: SubsampledGaussian, Rate: 0.5, NoiseMultiplier: 0.3},
	} {
		if n, err := MaxQueries(query, ok); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%+v: %d queries, %v; not one fits", query, n, err)
		}
	}
	if _, err := MaxQueries(Event{Kind: GNMax}, ok); err == nil {
		t.Error("queries without noise were counted")
	}
}

// The figures follow from the tails by hand: 2.326 = Phi^-1(0.99).
func TestTeachersToSurvive(t *testing.T) {
	for _, c := range []struct {
		query       Event
		classes     int
		probability float64
		want        int64
	}{
		{Event{Kind: GNMax, Sigma: 100}, 2, 0.99, 329},                                  // 2.3263 * 141.42 = 328.99
		{Event{Kind: ConfidentGNMax, Sigma1: 1, Sigma2: 10, Threshold: 5}, 2, 0.99, 33}, // 32.9
		{Event{Kind: GNMax, Sigma: 100}, 11, 0.99, 438},                                 // 3.0902 * 141.42 = 437.03
		{Event{Kind: LNMax, Lambda: 0.1}, 2, 0.95, 37},                                  // (2+3.7)/4 e^-3.7 = 0.0352; 36: 0.0383
	} {
		got, err := TeachersToSurvive(c.query, c.classes, c.probability)
		if err != nil {
			t.Fatal(err)
		}
		if c.query.Kind == LNMax {
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
	for name, query := range map[string]Event{"no noise": {Kind: GNMax}, "no votes": {Kind: Laplace, Epsilon: 1}} {
		if n, err := TeachersToSurvive(query, 2, 0.9); err == nil {
			t.Errorf("%s: %d teachers", name, n)
		}
	}
	if _, err := TeachersToSurvive(Event{Kind: GNMax, Sigma: 1}, 1, 0.9); err == nil {
		t.Error("one class was accepted")
	}
	if _, err := TeachersToSurvive(Event{Kind: GNMax, Sigma: 1}, 2, math.NaN()); err == nil {
		t.Error("a probability that is none was accepted")
	}
}
