package meaning

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
)

func TestWhatNoiseHides(t *testing.T) {
	for _, c := range []struct {
		event    privacy.Event
		releases int64
		deviates float64
		hidden   int64
	}{
		{privacy.Event{Kind: privacy.Gaussian, Sigma: 60, Sensitivity: 2}, 1, 30, 60},
		{privacy.Event{Kind: privacy.Gaussian, Sigma: 60, Sensitivity: 2}, 0, 30, 60},
		{privacy.Event{Kind: privacy.SubsampledGaussian, Rate: 0.1, NoiseMultiplier: 1.2}, 1, 1.2, 3},
		{privacy.Event{Kind: privacy.GNMax, Sigma: 50}, 100, 50, 10},
		{privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: 60, Sigma1: 9, Sigma2: 20}, 1, 20, 40},
		{privacy.Event{Kind: privacy.LNMax, Lambda: 0.1}, 1, 10 * math.Sqrt2, 29},
		{privacy.Event{Kind: privacy.Laplace, Epsilon: 0.1}, 1, 10 * math.Sqrt2, 29},
		{privacy.Event{Kind: privacy.Exponential, Epsilon: 0.1}, 1, 0, 0},
	} {
		got := Deviation(c.event)
		if math.Abs(got-c.deviates) > 1e-9 || Hidden(got, c.releases) != c.hidden {
			t.Errorf("%+v deviates by %v, and %d releases hide fewer than %d; want %v and %d", c.event, got, c.releases,
				Hidden(got, c.releases), c.deviates, c.hidden)
		}
	}
}

// So many units, over all releases, are no fewer than HiddenSigmas deviations of the releases' mean, and one less is.
func TestHiddenIsTwoDeviations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		deviation, releases := 50*r.Float64(), r.Int64N(1000)+1
		of := deviation / math.Sqrt(float64(releases))
		if n := float64(Hidden(deviation, releases)); n < HiddenSigmas*of || n-1 >= HiddenSigmas*of {
			t.Fatalf("%v of deviation %v", n, of)
		}
	}
}

// A unit at two sites adds twice as much, so half as many are hidden.
func TestFewerUnitsAreHiddenWhereTheyAreAtSeveralSites(t *testing.T) {
	for _, e := range []privacy.Event{
		{Kind: privacy.Gaussian, Sigma: 20, Sensitivity: 2}, {Kind: privacy.GNMax, Sigma: 20, Sensitivity: 2},
		{Kind: privacy.SubsampledGaussian, Rate: 0.1, NoiseMultiplier: 20, Sensitivity: 2},
		{Kind: privacy.Laplace, Epsilon: math.Sqrt2 / 20, Sensitivity: 2},
	} {
		if d := Deviation(e); math.Abs(d-10) > 1e-12 {
			t.Errorf("%s: %v, want 10", e.Kind, d)
		}
	}
	if At(0) != "" || At(2) != " at up to 2 sites" {
		t.Errorf("%q and %q", At(0), At(2))
	}
}
