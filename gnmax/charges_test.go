package gnmax

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// drawNeighbours draws a histogram and the same with one vote moved.
func drawNeighbours(t *rapid.T, spread float64) (before, after []int64) {
	before = rapid.SliceOfN(rapid.Int64Range(1, 1+int64(spread)), 2, 5).Draw(t, "votes")
	from := rapid.IntRange(0, len(before)-1).Draw(t, "from")
	to := (from + rapid.IntRange(1, len(before)-1).Draw(t, "to")) % len(before)
	after = slices.Clone(before)
	after[from]--
	after[to]++
	return before, after
}

func scaleFloat(s Scale) float64 { f, _ := s.rat().Float64(); return f }

// For random neighbouring inputs no mechanism loses more privacy than its charge, by exact enumeration of its noise.
// Rapid tries 100 cases each, 1,200 together (a fifth under -short).
func TestCharges(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	gaussian := func(sigma float64) pmf {
		s, err := NewSigma(sigma)
		testkit.Must(t, err)
		return gaussianPMF(variance(s), 12*math.Sqrt(variance(s)))
	}
	vote := []int64{1, -1}
	confident := func(t *rapid.T) (e privacy.Event, m *ConfidentMechanism, before, after []int64, test outputs) {
		sigma1, sigma2 := rapid.Float64Range(1, 6).Draw(t, "sigma1"), rapid.Float64Range(1, 6).Draw(t, "sigma2")
		before, after = drawNeighbours(t, 3*sigma2)
		e = privacy.Event{Kind: privacy.ConfidentGNMax, Threshold: rapid.Float64Range(0, 6*sigma1).Draw(t, "threshold"),
			Sigma1: sigma1, Sigma2: sigma2, Asked: 1, Answered: 1}
		m, err := NewConfident(e.Threshold, sigma1, sigma2, true)
		if err != nil {
			t.Fatal(err)
		}
		above := gaussian(sigma1).above()
		var passes [2][]float64
		for i, counts := range [][]int64{before, after} {
			x := int(m.needed - slices.Max(counts))
			passes[i] = []float64{above(x), above(1 - x)} // not 1 minus, which would lose digits
		}
		return e, m, before, after, outputs{passes[0], passes[1]}
	}
	for name, enumerate := range map[string]func(t *rapid.T) (privacy.Event, outputs){
		"gnmax winner": func(t *rapid.T) (privacy.Event, outputs) {
			sigma := rapid.Float64Range(1, 8).Draw(t, "sigma")
			before, after := drawNeighbours(t, 4*sigma)
			noise := gaussian(sigma)
			return privacy.Event{Kind: privacy.GNMax, Sigma: sigma, Count: 1},
				outputs{winnersOf(before, noise), winnersOf(after, noise)}
		},
		"gnmax histogram": func(t *rapid.T) (privacy.Event, outputs) {
			sigma := rapid.Float64Range(1, 20).Draw(t, "sigma")
			m := testkit.Value(NewGNMax(sigma, true))
			return privacy.Event{Kind: privacy.GNMax, Sigma: sigma, Count: 1},
				movedGaussians(variance(m.sigma), vote)
		},
		"confident winner": func(t *rapid.T) (privacy.Event, outputs) {
			e, _, before, after, test := confident(t)
			noise := gaussian(e.Sigma2)
			return e, afterThreshold(test, outputs{winnersOf(before, noise), winnersOf(after, noise)})
		},
		"confident histogram": func(t *rapid.T) (privacy.Event, outputs) {
			e, m, _, _, test := confident(t)
			return e, afterThreshold(test, movedGaussians(variance(m.answer.sigma), vote))
		},
		"confident test": func(t *rapid.T) (privacy.Event, outputs) {
			e, _, _, _, test := confident(t)
			e.Answered = 0
			return e, test
		},
		"lnmax winner": func(t *rapid.T) (privacy.Event, outputs) {
			lambda := rapid.Float64Range(0.2, 3).Draw(t, "lambda")
			m := testkit.Value(NewLNMax(lambda, false))
			scale := scaleFloat(m.scale)
			before, after := drawNeighbours(t, 4*scale)
			return privacy.Event{Kind: privacy.LNMax, Lambda: lambda, Count: 1},
				outputs{winnersOf(before, laplacePMF(scale)), winnersOf(after, laplacePMF(scale))}
		},
		"lnmax histogram": func(t *rapid.T) (privacy.Event, outputs) {
			lambda := rapid.Float64Range(0.05, 3).Draw(t, "lambda")
			m := testkit.Value(NewLNMax(lambda, true))
			return privacy.Event{Kind: privacy.LNMax, Lambda: lambda, Count: 1},
				movedLaplaces(scaleFloat(m.scale), vote)
		},
		"laplace counts": func(t *rapid.T) (privacy.Event, outputs) {
			unit := rapid.Int64Range(1, 12).Draw(t, "unit")
			epsilon := rapid.Float64Range(0.1, 3).Draw(t, "epsilon")
			scale, err := scaleFor(uint64(unit), epsilon)
			if err != nil {
				t.Fatal(err)
			}
			var d []int64 // of L1 norm unit
			for left := unit; left > 0; left -= max(d[len(d)-1], -d[len(d)-1]) {
				d = append(d, rapid.Int64Range(1, left).Draw(t, "change"))
			}
			return privacy.Event{Kind: privacy.Laplace, Epsilon: epsilon, Count: 1},
				movedLaplaces(scaleFloat(scale), d)
		},
		"norm-gamma": func(t *rapid.T) (privacy.Event, outputs) {
			e, m, move := drawNormGamma(t)
			return e, movedNormGamma(m, move)
		},
		"gaussian sum": func(t *rapid.T) (privacy.Event, outputs) {
			e, m, d := drawSum(t)
			return e, movedGaussians(variance(m.sigma), d)
		},
		"exponential": func(t *rapid.T) (privacy.Event, outputs) {
			return drawSelection(t)
		},
		"exponential, composed": func(t *rapid.T) (privacy.Event, outputs) {
			e, o := drawSelection(t)
			return e.Times(3), o.then(o).then(o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				e, o := enumerate(t)
				if err := o.violation(e); err != nil {
					t.Fatalf("%+v: %v", e, err)
				}
			})
		})
	}
}

// drawSum draws a release and one unit's encoded contribution to the sum.
func drawSum(t *rapid.T) (privacy.Event, *GaussianSum, []int64) {
	bound := rapid.Int64Range(2, 7).Draw(t, "bound")
	multiplier := rapid.Float64Range(0.5, 3).Draw(t, "multiplier")
	m, err := NewGaussianSum(bound, multiplier)
	if err != nil {
		t.Fatal(err)
	}
	vector := rapid.SliceOfN(rapid.Float64Range(-2, 2), 1, 3).Draw(t, "vector")
	d, err := Encode(testkit.Value(NewFixedPoint(1.5, bound)), vector)
	if err != nil {
		t.Fatal(err)
	}
	return privacy.Event{Kind: privacy.Gaussian, Sigma: multiplier, Sensitivity: 1, Count: 1}, m, d
}

// drawSelection draws a selection and its probabilities for neighbouring scores.
func drawSelection(t *rapid.T) (privacy.Event, outputs) {
	sensitivity := rapid.Int64Range(1, 1000).Draw(t, "sensitivity")
	epsilon := rapid.Float64Range(0.01, 6).Draw(t, "epsilon")
	m, err := NewExponential(epsilon, sensitivity)
	if err != nil {
		t.Fatal(err)
	}
	before := rapid.SliceOfN(rapid.Int64Range(0, 5*sensitivity), 1, 6).Draw(t, "scores")
	after := slices.Clone(before)
	for i := range after {
		// The ends of the range are the worst cases.
		after[i] += rapid.OneOf(rapid.Int64Range(-sensitivity, sensitivity),
			rapid.SampledFrom([]int64{-sensitivity, sensitivity})).Draw(t, "change")
	}
	return privacy.Event{Kind: privacy.Exponential, Epsilon: epsilon, Count: 1},
		outputs{selection(before, scaleFloat(m.scale)), selection(after, scaleFloat(m.scale))}
}

// The tightest claims, those of [privacy.Account], at one delta, because a thousand cases take too long. The
// enumeration also detects too little noise: 1% less for a sum, 5% less for the others.
func TestTightestClaims(t *testing.T) {
	const delta = 0.05
	sum, choice := testkit.Value(NewGaussianSum(5, 2)), testkit.Value(NewExponential(1, 10))
	gnmax, lnmax := testkit.Value(NewGNMax(3, true)), testkit.Value(NewLNMax(0.5, true))
	coefficients := testkit.Value(NewNormGamma(1.5, 5, 2))
	scale := scaleFloat(choice.scale)
	for name, c := range map[string]struct {
		charge, less privacy.Event
		o            outputs
	}{
		"gnmax": {privacy.Event{Kind: privacy.GNMax, Sigma: 3}, privacy.Event{Kind: privacy.GNMax, Sigma: 3.15},
			movedGaussians(variance(gnmax.sigma), []int64{1, -1})},
		"lnmax": {privacy.Event{Kind: privacy.LNMax, Lambda: 0.5}, privacy.Event{Kind: privacy.LNMax, Lambda: 0.475},
			movedLaplaces(scaleFloat(lnmax.scale), []int64{1, -1})},
		"sum": {privacy.Event{Kind: privacy.Gaussian, Sigma: 2, Sensitivity: 1},
			privacy.Event{Kind: privacy.Gaussian, Sigma: 2.02, Sensitivity: 1},
			movedGaussians(variance(sum.sigma), []int64{3, -4})},
		"norm-gamma": {privacy.Event{Kind: privacy.Laplace, Epsilon: 1.5},
			privacy.Event{Kind: privacy.Laplace, Epsilon: 1.425}, movedNormGamma(coefficients, [2]int64{3, -4})},
		"exponential": {privacy.Event{Kind: privacy.Exponential, Epsilon: 1},
			privacy.Event{Kind: privacy.Exponential, Epsilon: 0.95},
			outputs{selection([]int64{10, 0}, scale), selection([]int64{0, 10}, scale)}},
	} {
		claim, err := privacy.Account([]privacy.Event{c.charge.Times(1)}, delta)
		testkit.Must(t, err)
		for _, o := range []outputs{c.o, {p: c.o.q, q: c.o.p}} {
			if h := o.hockeyStick(claim.Epsilon); h > delta*(1+1e-9) {
				t.Errorf("%s: %s claims (%v, %v), delta is %v", name, claim.Accountant, claim.Epsilon, delta, h)
			}
		}
		if err := c.o.violation(c.charge.Times(1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.o.violation(c.less.Times(1)) == nil {
			t.Errorf("%s: too little noise was not seen", name)
		}
	}
}
