package privacy

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/normal"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// ofEach has an event of each kind, without overlap.
var ofEach = []Event{
	{Kind: Gaussian, Sigma: 3, Sensitivity: 1, Count: 4},
	{Kind: SubsampledGaussian, Rate: 1, NoiseMultiplier: 3, Count: 4},
	{Kind: GNMax, Sigma: 30, Count: 40},
	{Kind: ConfidentGNMax, Threshold: 9, Sigma1: 60, Sigma2: 30, Asked: 40, Answered: 20},
	{Kind: LNMax, Lambda: 0.02, Count: 7},
	{Kind: Laplace, Epsilon: 0.1, Count: 2},
	{Kind: Exponential, Epsilon: 0.05, Count: 9},
}

// The price for m sites is that of one site with an m-th of the noise, by every accountant.
func TestOverlapCostsWhatLessNoiseDoes(t *testing.T) {
	for _, e := range ofEach {
		for _, m := range []float64{2, 3, 10} {
			overlapping, less := e, e
			overlapping.Sensitivity = m
			less.Sigma, less.Sigma1, less.Sigma2, less.NoiseMultiplier = e.Sigma/m, e.Sigma1/m, e.Sigma2/m,
				e.NoiseMultiplier/m
			less.Lambda, less.Epsilon = e.Lambda*m, e.Epsilon*m
			got, err := Account([]Event{overlapping}, 1e-5)
			testkit.Must(t, err)
			want, err := Account([]Event{less}, 1e-5)
			testkit.Must(t, err)
			for name, epsilon := range want.ByAccountant {
				of := got.ByAccountant[name]
				if (of == nil) != (epsilon == nil) || of != nil && math.Abs(*of-*epsilon) > 1e-12**epsilon {
					t.Errorf("%s at %v sites: %s says %v, with less noise %v", e.Kind, m, name, of, epsilon)
				}
			}
		}
	}
}

// Noise chosen for a budget grows with the number of sites, and the price is the budget's.
func TestNoiseGrowsWithOverlap(t *testing.T) {
	one := Budget{Epsilon: 1, Delta: 1e-5}
	five := one.WithOverlap(5)
	for name, noise := range map[string]func(b Budget) (float64, error){
		"gaussian": func(b Budget) (float64, error) { return GaussianSigma(b, 3, nil) },
		"gnmax":    func(b Budget) (float64, error) { return GNMaxSigma(b, 300, nil) },
		"lnmax": func(b Budget) (float64, error) {
			lambda, err := LNMaxLambda(b, 30, nil)
			return 1 / lambda, err
		},
		"all in the sample": func(b Budget) (float64, error) { return SampledSigma(b, 1, 3, nil) },
	} {
		a, err := noise(one)
		testkit.Must(t, err)
		b, err := noise(five)
		testkit.Must(t, err)
		if math.Abs(b/a-5) > 1e-5 {
			t.Errorf("%s: noise %v for one site and %v for five", name, a, b)
		}
	}
	sampled := func(b Budget) float64 {
		sigma, err := SampledSigma(b, 0.01, 100, nil)
		testkit.Must(t, err)
		price, err := Account([]Event{b.Event(Event{
			Kind: SubsampledGaussian, Rate: 0.01, NoiseMultiplier: sigma, Count: 100,
		})}, b.Delta)
		testkit.Must(t, err)
		if price.Epsilon > 1 || price.Epsilon < 0.999 {
			t.Errorf("at %d sites samples cost %v", b.Sites(), price.Epsilon)
		}
		return sigma
	}
	if a, b := sampled(one), sampled(five); !(b > 5*a) {
		t.Errorf("samples have noise %v for one site and %v for five", a, b)
	}
}

// A Poisson sample has Binomial(m, q) copies of a unit at m sites. Whatever they add, in however many directions, the
// sum is no easier to distinguish than the charged pair: here they all add the most, in one direction.
func TestSampledCopiesAreNoWorseThanCharged(t *testing.T) {
	for _, c := range []struct {
		q, sigma float64
		m        int
	}{{0.01, 1, 2}, {0.01, 0.7, 3}, {0.2, 2, 2}, {0.5, 5, 4}, {0.9, 8, 5}} {
		e := Event{Kind: SubsampledGaussian, Rate: c.q, NoiseMultiplier: c.sigma, Count: 1,
			Sensitivity: float64(c.m)}.PerUnit()
		charged := sampledPair{e.Rate, e.NoiseMultiplier}
		// L = log P/Q grows with x, so that the best test at a loss is a threshold.
		weight, copies := make([]float64, c.m+1), 1.0
		for k := range weight {
			weight[k] = copies * math.Pow(c.q, float64(k)) * math.Pow(1-c.q, float64(c.m-k))
			copies = copies * float64(c.m-k) / float64(k+1)
		}
		above := func(x float64) (p, q float64) {
			for k, w := range weight {
				_, tail := normal.Tails((x - float64(k)) / c.sigma)
				p += w * tail
			}
			_, q = normal.Tails(x / c.sigma)
			return p, q
		}
		for x := -4 * c.sigma; x < float64(c.m)+6*c.sigma; x += c.sigma / 7 {
			p, q := above(x)
			// At each trade-off point of the copies, the charged pair is at least as easy to distinguish.
			threshold := e.NoiseMultiplier * x / c.sigma // the same false alarms
			_, charge := normal.Tails(threshold / e.NoiseMultiplier)
			_, hit := normal.Tails((threshold - 1) / e.NoiseMultiplier)
			if power := (1-charged.rate)*charge + charged.rate*hit; power < p-1e-12 {
				t.Errorf("%+v: at false alarms %v copies are found with %v, the charged pair with %v", c, q, p,
					power)
			}
		}
	}
}

// A vote at each of m sites moves counts by m in all, however it is spread: its exact divergence for discrete
// Laplace noise is no larger than what is charged.
func TestVotesAtSeveralSitesAreNoWorseThanCharged(t *testing.T) {
	const reach = 4000
	divergence := func(lambda, alpha float64, moved int) float64 {
		sum := 0.0
		for x := -reach; x <= reach; x++ {
			p, q := -lambda*math.Abs(float64(x)), -lambda*math.Abs(float64(x-moved))
			sum += math.Exp(alpha*p + (1-alpha)*q)
		}
		return math.Log(sum*math.Tanh(lambda/2)) / (alpha - 1)
	}
	for m, moves := range map[int][][]int{
		2: {{2, -2}, {1, 1, -1, -1}, {2, -1, -1}, {1, 1, -2}},
		3: {{3, -3}, {2, 1, -3}, {1, 1, 1, -1, -1, -1}},
	} {
		for _, lambda := range []float64{0.02, 0.3, 2} {
			for _, alpha := range []float64{1.1, 2, 8} {
				charged, err := Event{Kind: LNMax, Lambda: lambda, Sensitivity: float64(m), Count: 1}.RDP(alpha)
				testkit.Must(t, err)
				for _, move := range moves {
					exact := 0.0
					for _, d := range move {
						exact += divergence(lambda, alpha, d)
					}
					if exact > charged*(1+1e-9) {
						t.Errorf("lambda %v, order %v: a move by %v costs %v, %v is charged", lambda, alpha, move,
							exact, charged)
					}
				}
			}
		}
	}
}

func TestOverlapThatCannotBe(t *testing.T) {
	for _, s := range []float64{-1, 0.5, 1, 1.5, 1001, math.Inf(1), math.NaN()} {
		for _, e := range ofEach[1:] {
			e.Sensitivity = s
			if _, err := Account([]Event{e}, 1e-5); err == nil {
				t.Errorf("%s has a price for a sensitivity of %v", e.Kind, s)
			}
		}
	}
	for _, overlap := range []int{-1, 1, 1001} {
		if err := (Budget{Epsilon: 1, Delta: 1e-5, Overlap: overlap}).Validate(); err == nil {
			t.Errorf("a budget has an overlap of %d", overlap)
		}
	}
	for _, sites := range []int{-1, 0, 1001} {
		if err := CheckOverlap(sites); err == nil {
			t.Errorf("a unit is at %d sites", sites)
		}
	}
	testkit.Must(t, errors.Join(CheckOverlap(1), CheckOverlap(MaxOverlap)))
}

// A plan must pay for exactly the dataset's number of sites in each entry.
func TestPlansPayForOverlap(t *testing.T) {
	for _, e := range ofEach {
		for of := 1; of <= 3; of++ {
			for at := 1; at <= 3; at++ {
				b, planned := Budget{Epsilon: 9, Delta: 1e-5}.WithOverlap(at), Budget{}.WithOverlap(of)
				plan := Plan{{Kind: "votes", Mechanism: planned.Event(e.parameters()), Count: 1}}
				_, err := CheckDatasetPlan(b, nil, 0, "", plan)
				if (err == nil) != (of == at) || err != nil && !errors.Is(err, ErrPlan) {
					t.Errorf("%s for %d sites, of a dataset with %d: %v", e.Kind, of, at, err)
				}
			}
		}
	}
	plan := Plan{{Kind: "votes", Mechanism: Event{Kind: GNMax, Sigma: 30}, Count: 1}}
	_, err := CheckDatasetPlan(Budget{Epsilon: 9, Delta: 1e-5, Overlap: 2}, nil, 0, "", plan)
	want := "entry 0, for votes, pays for a sensitivity of 1, and a privacy unit may be at up to 2 sites"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
