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

func scaleFloat(s Scale) float64 { f, _ := s.Rat().Float64(); return f }

// Every mechanism on random neighbouring inputs, by exact enumeration of the
// noise that it draws: never easier to see than it is charged for. Rapid tries
// 100 cases each, 1,300 together (a fifth under -short).
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
	confident := func(t *rapid.T) (m *ConfidentMechanism, before, after []int64, test outputs) {
		sigma1, sigma2 := rapid.Float64Range(1, 6).Draw(t, "sigma1"), rapid.Float64Range(1, 6).Draw(t, "sigma2")
		before, after = drawNeighbours(t, 3*sigma2)
		m, err := NewConfident(rapid.Float64Range(0, 6*sigma1).Draw(t, "threshold"), sigma1, sigma2, true)
		if err != nil {
			t.Fatal(err)
		}
		above := gaussian(sigma1).above()
		var passes [2][]float64
		for i, counts := range [][]int64{before, after} {
			x := int(m.needed - slices.Max(counts))
			passes[i] = []float64{above(x), above(1 - x)} // not 1 less, which loses digits
		}
		return m, before, after, outputs{passes[0], passes[1]}
	}
	for name, enumerate := range map[string]func(t *rapid.T) ([]privacy.Event, outputs){
		"gnmax winner": func(t *rapid.T) ([]privacy.Event, outputs) {
			sigma := rapid.Float64Range(1, 8).Draw(t, "sigma")
			before, after := drawNeighbours(t, 4*sigma)
			noise := gaussian(sigma)
			return testkit.Value(NewGNMax(sigma, false)).Cost(1, 1),
				outputs{winnersOf(before, noise), winnersOf(after, noise)}
		},
		"gnmax histogram": func(t *rapid.T) ([]privacy.Event, outputs) {
			m := testkit.Value(NewGNMax(rapid.Float64Range(1, 20).Draw(t, "sigma"), true))
			return m.Cost(1, 1), movedGaussians(variance(m.sigma), vote)
		},
		"confident winner": func(t *rapid.T) ([]privacy.Event, outputs) {
			m, before, after, test := confident(t)
			noise := gaussian(m.answer.sigma.Float())
			return m.Worst(1), afterThreshold(test, outputs{winnersOf(before, noise), winnersOf(after, noise)})
		},
		"confident histogram": func(t *rapid.T) ([]privacy.Event, outputs) {
			m, _, _, test := confident(t)
			return m.Worst(1), afterThreshold(test, movedGaussians(variance(m.answer.sigma), vote))
		},
		"confident test": func(t *rapid.T) ([]privacy.Event, outputs) {
			m, _, _, test := confident(t)
			return m.Cost(1, 0), test
		},
		"lnmax winner": func(t *rapid.T) ([]privacy.Event, outputs) {
			m := testkit.Value(NewLNMax(rapid.Float64Range(0.2, 3).Draw(t, "lambda"), false))
			scale := scaleFloat(m.lambda.Scale())
			before, after := drawNeighbours(t, 4*scale)
			return m.Cost(1, 1), outputs{winnersOf(before, laplacePMF(scale)), winnersOf(after, laplacePMF(scale))}
		},
		"lnmax histogram": func(t *rapid.T) ([]privacy.Event, outputs) {
			m := testkit.Value(NewLNMax(rapid.Float64Range(0.05, 3).Draw(t, "lambda"), true))
			return m.Cost(1, 1), movedLaplaces(scaleFloat(m.lambda.Scale()), vote)
		},
		"laplace counts": func(t *rapid.T) ([]privacy.Event, outputs) {
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
			return []privacy.Event{{Kind: privacy.Laplace, Epsilon: epsilon, Count: 1}},
				movedLaplaces(scaleFloat(scale), d)
		},
		"norm-gamma": func(t *rapid.T) ([]privacy.Event, outputs) {
			m, move := drawNormGamma(t)
			return m.Cost(1), movedNormGamma(m, move)
		},
		"norm-gamma, composed": func(t *rapid.T) ([]privacy.Event, outputs) {
			m, move := drawNormGamma(t)
			o := movedNormGamma(m, move).byLoss(50)
			return m.Cost(2), o.then(o)
		},
		"gaussian sum": func(t *rapid.T) ([]privacy.Event, outputs) {
			m, d := drawSum(t)
			return m.Cost(1), movedGaussians(variance(m.sigma), d)
		},
		"exponential": func(t *rapid.T) ([]privacy.Event, outputs) {
			m, o := drawSelection(t)
			return m.Cost(1), o
		},
		"exponential, composed": func(t *rapid.T) ([]privacy.Event, outputs) {
			m, o := drawSelection(t)
			return m.Cost(3), o.then(o).then(o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				events, o := enumerate(t)
				if err := o.violation(events); err != nil {
					t.Fatalf("%+v: %v", events, err)
				}
			})
		})
	}
}

// drawSum draws a release and what one unit adds to the sum, as it is encoded.
func drawSum(t *rapid.T) (*GaussianSum, []int64) {
	bound := rapid.Int64Range(2, 7).Draw(t, "bound")
	m, err := NewGaussianSum(bound, rapid.Float64Range(0.5, 3).Draw(t, "multiplier"))
	if err != nil {
		t.Fatal(err)
	}
	vector := rapid.SliceOfN(rapid.Float64Range(-2, 2), 1, 3).Draw(t, "vector")
	d, err := Encode(testkit.Value(NewFixedPoint(1.5, bound)), vector)
	if err != nil {
		t.Fatal(err)
	}
	return m, d
}

// drawSelection draws a selection and its probabilities for neighbouring scores.
func drawSelection(t *rapid.T) (*ExponentialMechanism, outputs) {
	sensitivity := rapid.Int64Range(1, 1000).Draw(t, "sensitivity")
	m, err := NewExponential(rapid.Float64Range(0.01, 6).Draw(t, "epsilon"), sensitivity)
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
	return m, outputs{selection(before, scaleFloat(m.scale)), selection(after, scaleFloat(m.scale))}
}

// The tightest claims, those of [privacy.Account], at one delta: they take too
// long for a thousand cases.
func TestTightestClaims(t *testing.T) {
	const delta = 0.05
	gnmax, lnmax := testkit.Value(NewGNMax(3, true)), testkit.Value(NewLNMax(0.5, true))
	sum, choice := testkit.Value(NewGaussianSum(5, 2)), testkit.Value(NewExponential(1, 10))
	coefficients := testkit.Value(NewNormGamma(1.5, 5, 2))
	scale := scaleFloat(choice.scale)
	for name, c := range map[string]struct {
		events []privacy.Event
		o      outputs
	}{
		"gnmax":      {gnmax.Cost(1, 1), movedGaussians(variance(gnmax.sigma), []int64{1, -1})},
		"lnmax":      {lnmax.Cost(1, 1), movedLaplaces(scaleFloat(lnmax.lambda.Scale()), []int64{1, -1})},
		"sum":        {sum.Cost(1), movedGaussians(variance(sum.sigma), []int64{3, -4})},
		"norm-gamma": {coefficients.Cost(1), movedNormGamma(coefficients, [2]int64{3, -4})},
		"exponential": {choice.Cost(1),
			outputs{selection([]int64{10, 0, 10}, scale), selection([]int64{0, 10, 0}, scale)}},
	} {
		claim, err := privacy.Account(c.events, delta)
		testkit.Must(t, err)
		for _, o := range []outputs{c.o, {p: c.o.q, q: c.o.p}} {
			if h := o.hockeyStick(claim.Epsilon); h > delta*(1+1e-9) {
				t.Errorf("%s: %s claims (%v, %v), delta is %v", name, claim.Accountant, claim.Epsilon, delta, h)
			}
		}
	}
}

// The enumeration would see too little noise: a sum whose noise is 1% below what
// it is charged for, an exponential selection and votes by 5%.
func TestChargesAreTight(t *testing.T) {
	sum := testkit.Value(NewGaussianSum(5, 2))
	cost := sum.Cost(1)
	o := movedGaussians(variance(sum.sigma), []int64{3, -4})
	if err := o.violation(cost); err != nil {
		t.Error(err)
	}
	cost[0].Sigma *= 1.01
	if o.violation(cost) == nil {
		t.Error("a sum with too little noise was not seen")
	}

	choice := testkit.Value(NewExponential(1, 10))
	scale := scaleFloat(choice.scale)
	o = outputs{selection([]int64{10, 0}, scale), selection([]int64{0, 10}, scale)}
	cost = choice.Cost(1)
	if err := o.violation(cost); err != nil {
		t.Error(err)
	}
	cost[0].Epsilon *= 0.95
	if o.violation(cost) == nil {
		t.Error("a selection that costs more was not seen")
	}

	votes := testkit.Value(NewLNMax(0.5, true))
	cost = votes.Cost(1, 1)
	o = movedLaplaces(scaleFloat(votes.lambda.Scale()), []int64{1, -1})
	cost[0].Lambda *= 0.95
	if o.violation(cost) == nil {
		t.Error("votes with too little noise were not seen")
	}
}
