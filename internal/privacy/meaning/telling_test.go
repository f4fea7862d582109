package meaning

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// One Gaussian release at (1, 1e-6) has mu about 0.236; the best guess is right in Phi(mu/2) of cases.
func TestTellingOfGaussianNoiseIsExact(t *testing.T) {
	event, err := privacy.Calibrate(privacy.Event{Kind: privacy.Gaussian, Sensitivity: 1, Count: 1},
		privacy.Budget{Epsilon: 1, Delta: 1e-6})
	testkit.Must(t, err)
	got, err := Tell([]privacy.Event{event}, 1, 1e-6)
	testkit.Must(t, err)
	if want := phi(1 / event.Sigma / 2); math.Abs(got.Chance-want) > 1e-9 {
		t.Errorf("the chance is %v, want Phi(mu/2) = %v", got.Chance, want)
	}
	if !got.Exact || got.By != privacy.AccountantGDP || Percent(got.Chance) != "54.7%" ||
		Percent(got.OfBudget) != "73.1%" {
		t.Errorf("%+v: %s, of the budget %s", got, Percent(got.Chance), Percent(got.OfBudget))
	}
}

// The distance of other noise comes from the grid; if it is known in closed form it must agree.
func TestTellingOfOtherNoise(t *testing.T) {
	const rate, noise = 0.25, 1.0
	for _, c := range []struct {
		name   string
		events []privacy.Event
		want   float64
	}{
		{"pure", []privacy.Event{{Kind: privacy.Laplace, Epsilon: 0.5, Count: 1}}, (1 + math.Tanh(0.25)) / 2},
		// A mixture differs from N(0, 1) by rate times what the shifted one does.
		{"sampled", []privacy.Event{{Kind: privacy.SubsampledGaussian, Rate: rate, NoiseMultiplier: noise, Count: 1}},
			(1 + rate*(2*phi(1/noise/2)-1)) / 2},
	} {
		price, err := privacy.Account(c.events, 1e-5)
		testkit.Must(t, err)
		got, err := Tell(c.events, price.Epsilon, 1e-5)
		testkit.Must(t, err)
		if got.Chance < c.want-1e-12 || got.Chance > c.want+2e-3 || got.Exact {
			t.Errorf("%s: %+v, want %v or a little more, not exact", c.name, got, c.want)
		}
		if got.Chance > got.OfBudget {
			t.Errorf("%s: %v is above what the budget alone says, %v", c.name, got.Chance, got.OfBudget)
		}
	}
}

// Many steps on small samples are nearly Gaussian, with mu = rate sqrt(steps (e^(1/noise^2) - 1)) (Dong, Roth, Su 2019,
// Corollary 5.4).
func TestTellingOfManySamples(t *testing.T) {
	const rate, noise, steps = 0.01, 1.0, 1000
	got, err := Tell([]privacy.Event{{Kind: privacy.SubsampledGaussian, Rate: rate, NoiseMultiplier: noise,
		Count: steps}}, 3, 1e-5)
	testkit.Must(t, err)
	want := phi(rate * math.Sqrt(steps*math.Expm1(1/noise/noise)) / 2)
	if math.Abs(got.Chance-want) > 0.004 || got.By != privacy.AccountantPLD {
		t.Errorf("%+v, want about %v", got, want)
	}
}

// With almost no noise the chance is certainty, and nothing fails.
func TestTellingOfNoNoise(t *testing.T) {
	got, err := Tell([]privacy.Event{{Kind: privacy.Gaussian, Sigma: 1e-3, Sensitivity: 1, Count: 1}}, 600000, 1e-5)
	testkit.Must(t, err)
	if Percent(got.Chance) != "> 99.9%" {
		t.Errorf("%+v", got)
	}
	if none, err := Tell(nil, 1, 1e-5); err != nil || none.Chance != 0.5 {
		t.Errorf("of no release: %+v, %v", none, err)
	}
	if _, err := Tell([]privacy.Event{{Kind: privacy.Gaussian}}, 1, 1e-5); err == nil {
		t.Error("an event without noise has a chance")
	}
}

// The corner cases of the bound: none at epsilon 0, certainty as epsilon grows, and delta alone.
func TestBound(t *testing.T) {
	for _, c := range []struct {
		epsilon, delta float64
		want           string
	}{{0, 0, "50.0%"}, {math.Log(3), 0, "75.0%"}, {0, 0.5, "75.0%"}, {3, 1e-5, "95.3%"}, {800, 1e-5, "> 99.9%"},
		{1, 1e-5, "73.1%"}} {
		if got := Percent(Bound(c.epsilon, c.delta)); got != c.want {
			t.Errorf("Bound(%v, %v) = %s, want %s", c.epsilon, c.delta, got, c.want)
		}
	}
}
