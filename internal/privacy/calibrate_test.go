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
	{Kind: SubsampledGaussian, Rate: 0.02, Count: 50},
	{Kind: GNMax, Count: 1000},
	{Kind: ConfidentGNMax, Threshold: 100, Sigma1: 1.5, Sigma2: 1, Asked: 200, Answered: 120},
	{Kind: LNMax, Count: 20},
	{Kind: Laplace, Count: 3},
	{Kind: Exponential, Count: 5},
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
			price := mustAccount(t, []Event{e}, target.Delta)
			if price.Epsilon > target.Epsilon || price.Epsilon < target.Epsilon*(1-1e-4) {
				t.Errorf("%s: %+v costs %v, the target is %v", template.Kind, e, price.Epsilon, target.Epsilon)
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
	tiny := Budget{Epsilon: 1e-12, Delta: 1e-18}
	if _, err := Calibrate(Event{Kind: GNMax, Count: 1 << 60}, tiny); !errors.Is(err, ErrUnreachable) {
		t.Errorf("hopeless target: %v", err)
	}
	for _, template := range templates {
		if e, err := Calibrate(template, Budget{Epsilon: 1e300, Delta: 1e-5}); err == nil ||
			!strings.Contains(err.Error(), "protects nobody") {
			t.Errorf("epsilon 1e300: %+v, %v", e, err)
		}
	}
	small := Budget{Epsilon: 0.01, Delta: 1e-9}
	if _, err := MaxQueries(Event{Kind: GNMax, Sigma: 1}, small); !errors.Is(err, ErrUnreachable) {
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
