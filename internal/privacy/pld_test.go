package privacy

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit/draws"
)

// within fails unless the figure lies between the truth and a little above it, and the
// one from below not above it.
func within(t *testing.T, what string, truth, delta, tolerance float64, pairs ...countedPair) {
	t.Helper()
	upper, lower := pairsEpsilon(pairs, delta, 0), lowest(pairs, delta)
	if !(upper >= truth*(1-1e-9) && upper <= truth*(1+tolerance)) {
		t.Errorf("%s, delta %g: epsilon %.9g, truth %.9g", what, delta, upper, truth)
	}
	if !(lower <= truth*(1+1e-9)) {
		t.Errorf("%s, delta %g: from below %.9g, truth %.9g", what, delta, lower, truth)
	}
}

// Many Gaussians are one, whose epsilon has a closed form.
func TestPLDOfGaussians(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, mu := range []float64{1e-4, 0.03, 4} {
		for _, count := range []float64{1, 300} {
			for _, delta := range []float64{1e-3, 1e-15} {
				truth := gdpEpsilon(mu*math.Sqrt(count), delta)
				within(t, "gaussian", truth, delta, 3e-4, countedPair{gaussianPair{mu}, count})
			}
		}
	}
}

// responseDelta is the exact hockey-stick divergence of n randomized responses:
// the loss is epsilon0 (2k - n) with a binomial k.
func responseDelta(epsilon0 float64, n int, epsilon float64) float64 {
	logP, logQ := -math.Log1p(math.Exp(-epsilon0)), -math.Log1p(math.Exp(epsilon0))
	logFactorial := func(k int) float64 { l, _ := math.Lgamma(float64(k) + 1); return l }
	sum := 0.0
	for k := n; k >= 0; k-- {
		loss := epsilon0 * float64(2*k-n)
		if loss <= epsilon {
			break
		}
		log := logFactorial(n) - logFactorial(k) - logFactorial(n-k) + float64(k)*logP + float64(n-k)*logQ
		sum += math.Exp(log) * -math.Expm1(epsilon-loss)
	}
	return sum
}

func TestPLDOfPureMechanisms(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, c := range []struct {
		epsilon0 float64
		n        int
	}{{0.005, 2000}, {0.02, 500}, {0.3, 30}, {1, 5}, {3, 1}, {0.05, 1}} {
		for _, delta := range []float64{1e-3, 1e-9} {
			lo, hi := 0.0, c.epsilon0*float64(c.n)
			if responseDelta(c.epsilon0, c.n, 0) <= delta {
				continue
			}
			_, truth := bisect(lo, hi, func(e float64) bool { return responseDelta(c.epsilon0, c.n, e) > delta })
			within(t, "randomized response", truth, delta, 2e-3, countedPair{responsePair{c.epsilon0}, float64(c.n)})
		}
	}
}

// A pair's own hockey stick, from its tails.
func hockeyStick(pair lossPair, epsilon float64) float64 {
	tails := pair.tails(epsilon)
	return tails.pAbove - math.Exp(epsilon)*tails.qAbove
}

func TestPLDOfOneRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	sampled := sampledPair{rate: 0.05, sigma: 0.8}
	for name, pair := range map[string]lossPair{
		"sampled": sampled, "swapped": swappedPair{sampled}, "range": rangePair{0.7}, "gaussian": gaussianPair{0.5},
	} {
		const delta = 1e-3
		if hockeyStick(pair, 0) <= delta {
			t.Fatalf("%s: nothing to test", name)
		}
		_, truth := bisect(0, 20, func(e float64) bool { return hockeyStick(pair, e) > delta })
		within(t, name, truth, delta, 2e-3, countedPair{pair, 1})
	}
}

// Whatever grid, tilt and pair: never below the truth. Figures that rounding has
// spoilt, or whose window is too small for the grid, are infinite or larger.
func TestPLDIsNeverBelow(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	draws.Costly(t, func(t *rapid.T) {
		sampled := sampledPair{
			rate:  math.Exp(rapid.Float64Range(math.Log(1e-4), math.Log(0.9)).Draw(t, "log rate")),
			sigma: rapid.Float64Range(0.3, 5).Draw(t, "sigma"),
		}
		pair := rapid.SampledFrom([]lossPair{
			sampled, swappedPair{sampled}, rangePair{sampled.sigma}, gaussianPair{1 / sampled.sigma},
		}).Draw(t, "pair")
		delta := math.Exp(rapid.Float64Range(math.Log(1e-9), math.Log(0.2)).Draw(t, "log delta"))
		if hockeyStick(pair, 0) <= delta {
			t.Skip("epsilon is 0")
		}
		_, truth := bisect(0, 200, func(e float64) bool { return hockeyStick(pair, e) > delta })
		tail := delta * tailShare
		lo, hi := pair.span(tail)
		step := (hi - lo) / rapid.Float64Range(200, 50_000).Draw(t, "points")
		c, ok := compose([]countedPair{{pair, 1}}, step, tail)
		if !ok {
			t.Fatal("the grid has lost mass")
		}
		order := math.Exp(rapid.Float64Range(math.Log(1e-3), math.Log(100)).Draw(t, "log order"))
		if epsilon := c.epsilon(delta, order); epsilon < truth*(1-1e-9) {
			t.Fatalf("epsilon %.9g, truth %.9g", epsilon, truth)
		}
	})
	sampled := sampledPair{rate: 0.05, sigma: 0.8}
	_, truth := bisect(0, 20, func(e float64) bool { return hockeyStick(sampled, e) > 1e-3 })
	c, _ := compose([]countedPair{{sampled, 1}}, 1.95e-6, 1e-10) // right end beyond the largest window
	if epsilon := c.epsilon(1e-3, 3); epsilon < truth {
		t.Errorf("epsilon %.9g, truth %.9g", epsilon, truth)
	}
}

// Rare samples beside other releases, where the first look at the losses misleads.
func TestPLDRefinesItsGrid(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	rate, sigma := 0.00714114, 0.434769
	events := []Event{{Kind: GNMax, Sigma: 33.7228583, Count: 2},
		{Kind: SubsampledGaussian, Rate: rate, NoiseMultiplier: sigma, Count: 1}}
	// The product of the pairs by numerical integration: the hockey stick of the
	// sample, at the loss that the Gaussian leaves.
	const delta = 0.0107188
	gaussian := gaussianPair{2 / 33.7228583}
	truth := 0.0
	for _, pair := range []lossPair{sampledPair{rate, sigma}, swappedPair{sampledPair{rate, sigma}}} {
		_, epsilon := bisect(0, 2, func(e float64) bool {
			sum, last := 0.0, gaussian.tails(-1).pBelow
			const step = 1e-4
			for loss := -1.0; loss < 1; loss += step {
				next := gaussian.tails(loss + step).pBelow
				sum += (next - last) * hockeyStick(pair, e-loss-step/2)
				last = next
			}
			return sum > delta
		})
		truth = max(truth, epsilon)
	}
	price := mustAccount(t, events, delta)
	if pld := *price.ByAccountant[AccountantPLD]; pld < truth*(1-1e-4) || pld > truth*(1+1.1e-3) {
		t.Errorf("pld %.6g, by integration %.6g", pld, truth)
	}
}

// A list whose worst neighbour is one unit less, and one that pays twice.
func TestPLDCountsAll(t *testing.T) {
	sampled := []Event{{Kind: SubsampledGaussian, Rate: 0.0283182, NoiseMultiplier: 0.620628, Count: 3},
		{Kind: Laplace, Epsilon: 0.248969, Count: 3}}
	if pld := *mustAccount(t, sampled, 0.0991054).ByAccountant[AccountantPLD]; pld < 0.2150 || pld > 0.2153 {
		t.Errorf("pld %.6g; adding alone costs 0.2014, removing 0.2151", pld)
	}
	const delta = 1e-3
	_, truth := bisect(0, 2, func(e float64) bool { return responseDelta(0.5, 4, e) > delta })
	if pld := *mustAccount(t, []Event{{Kind: LNMax, Lambda: 0.5, Count: 2}},
		delta).ByAccountant[AccountantPLD]; pld < truth || pld > truth*1.002 {
		t.Errorf("two lnmax: pld %.6g, four responses have %.6g", pld, truth)
	}
}

// The tails of a pair belong together: dP = e^L dQ, so that the mass between two
// losses under P is that under Q times something between the two powers of e.
func TestLossPairsAreConsistent(t *testing.T) {
	sampled := sampledPair{rate: 0.01, sigma: 1.3}
	for name, pair := range map[string]lossPair{
		"gaussian": gaussianPair{1.7}, "sampled": sampled, "swapped": swappedPair{sampled},
		"range": rangePair{1.1}, "response": responsePair{0.9},
	} {
		lo, hi := pair.span(1e-8)
		const steps = 400
		low := pair.tails(lo)
		for i := 1; i <= steps; i++ {
			from, to := lo+(hi-lo)*float64(i-1)/steps, lo+(hi-lo)*float64(i)/steps
			high := pair.tails(to)
			p, q := low.pAbove-high.pAbove, low.qAbove-high.qAbove
			if p < q*math.Exp(from)-1e-13 || p > q*math.Exp(to)+1e-13 {
				t.Errorf("%s: between losses %g and %g P has %g, Q %g", name, from, to, p, q)
			}
			if d := math.Abs(high.pAbove + high.pBelow - 1); d > 1e-12 {
				t.Errorf("%s: tails of P at %g add up to 1%+g", name, to, d)
			}
			if d := math.Abs(high.qAbove + high.qBelow - 1); d > 1e-12 {
				t.Errorf("%s: tails of Q at %g add up to 1%+g", name, to, d)
			}
			low = high
		}
	}
}

// The exponential mechanism on any two neighbours is dominated by rangePair.
func TestRangePairDominatesExponentialMechanisms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epsilon := rapid.Float64Range(0.01, 5).Draw(t, "epsilon")
		scores := rapid.SliceOfN(rapid.Float64Range(0, 6), 2, 8).Draw(t, "scores")
		p, q := make([]float64, len(scores)), make([]float64, len(scores))
		sumP, sumQ := 0.0, 0.0
		for i, score := range scores {
			moved := score + rapid.Float64Range(-1, 1).Draw(t, "move")
			p[i], q[i] = math.Exp(epsilon*score/2), math.Exp(epsilon*moved/2)
			sumP, sumQ = sumP+p[i], sumQ+q[i]
		}
		at := rapid.Float64Range(-epsilon, epsilon).Draw(t, "at")
		divergence := 0.0
		for i := range p {
			divergence += max(0, p[i]/sumP-math.Exp(at)*q[i]/sumQ)
		}
		if bound := hockeyStick(rangePair{epsilon}, at); divergence > bound+1e-12 {
			t.Fatalf("divergence %g at %g is above %g", divergence, at, bound)
		}
	})
}

// rangeMu is enough everywhere, and no smaller mu would do.
func TestRangeMu(t *testing.T) {
	for _, epsilon := range []float64{1e-6, 0.01, 0.3, 1, 4, 20, 60} {
		mu, pair := rangeMu(epsilon), rangePair{epsilon}
		for i := -2000; i <= 2000; i++ {
			y := epsilon * float64(i) / 2000
			if gaussian, bound := gdpDelta(y, mu), hockeyStick(pair, y); bound > gaussian+1e-13 {
				t.Errorf("epsilon %g at %g: %g is above the Gaussian %g", epsilon, y, bound, gaussian)
			}
		}
		if less := gdpDelta(0, mu*(1-1e-6)); epsilon < 20 && less >= hockeyStick(pair, 0) {
			t.Errorf("epsilon %g: a smaller mu would do", epsilon)
		}
	}
}

// Lists of all kinds: the proven bound is above the possible loss, and the two are close.
func TestPLDOfMixtures(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	worst := 0.0
	draws.Costly(t, func(t *rapid.T) {
		events := Merge(drawEvents(t, 3))
		delta := drawDelta.Draw(t, "delta")
		best := rdpEpsilon(events, delta)
		upper := pldEpsilon(events, delta)
		if math.IsInf(upper, 1) {
			return
		}
		lower := leastEpsilon(events, delta)
		if upper < lower || lower < 0 {
			t.Fatalf("epsilon %g, from below %g", upper, lower)
		}
		// rangePair covers every choice of the worst range at once, and many
		// of them cost more than their Rényi bound.
		selects := slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Exponential })
		if upper > best*(1+1e-3)+1e-9 && !selects {
			t.Fatalf("pld %g is above rdp %g", upper, best)
		}
		if lower > 0.01 {
			worst = max(worst, upper/lower-1)
		}
	})
	t.Logf("largest gap to the figure from below: %.2g", worst)
}

func TestPLDGivesUpSafely(t *testing.T) {
	for name, e := range map[string]Event{
		"too many":        {Kind: LNMax, Lambda: 1e-9, Count: 1 << 40},
		"no noise":        {Kind: SubsampledGaussian, Rate: 0.1, NoiseMultiplier: 1e-200, Count: 1},
		"almost no noise": {Kind: SubsampledGaussian, Rate: 0.1, NoiseMultiplier: 1e-9, Count: 3},
		"huge epsilon":    {Kind: Exponential, Epsilon: 1e300, Count: 2},
		"tiny epsilon":    {Kind: Exponential, Epsilon: 1e-300, Count: 2},
		"tiny rate":       {Kind: SubsampledGaussian, Rate: 1e-300, NoiseMultiplier: 1, Count: 1},
	} {
		epsilon := pldEpsilon([]Event{e}, 1e-5)
		if math.IsNaN(epsilon) || epsilon < 0 {
			t.Errorf("%s: epsilon %v", name, epsilon)
		}
		t.Logf("%s: %v", name, epsilon)
	}
}

// Beyond the bounds there is no figure, and up to them there is one. (At this delta it is 0, which needs no finer
// grid.)
func TestPLDKeepsItsLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	different := func(n int) (events []Event) {
		for i := range n {
			events = append(events, Event{Kind: Laplace, Epsilon: 1e-6 * float64(1+i), Count: 1})
		}
		return events
	}
	for name, c := range map[string]struct {
		events []Event
		figure bool
	}{
		"100 million releases": {[]Event{{Kind: Laplace, Epsilon: 1e-4, Count: 1e8}}, true},
		"one more":             {[]Event{{Kind: Laplace, Epsilon: 1e-4, Count: 1e8 + 1}}, false},
		"256 pairs":            {different(256), true},
		"257 pairs":            {different(257), false},
	} {
		if epsilon := pldEpsilon(c.events, 0.5); math.IsInf(epsilon, 1) == c.figure {
			t.Errorf("%s: epsilon %g", name, epsilon)
		}
	}
}

// Infinite losses, of each release, are subtracted from delta.
func TestPLDPaysForInfiniteLosses(t *testing.T) {
	const delta, count = 1e-3, 3
	truth := gdpEpsilon(math.Sqrt(count), 1e-4)
	c, ok := compose([]countedPair{{gaussianPair{1}, count}}, 1e-3, 1e-12)
	if !ok {
		t.Fatal("the grid has lost mass")
	}
	c.parts[0].grid.infinite = 3e-4 // all together nine tenths of delta
	if epsilon := c.epsilon(delta, 3); epsilon < truth*(1-1e-9) || epsilon > truth*(1+1e-3) {
		t.Errorf("epsilon %.9g, with a tenth of delta it is %.9g", epsilon, truth)
	}
	c.parts[0].grid.infinite = 4e-4
	if epsilon := c.epsilon(delta, 3); !math.IsInf(epsilon, 1) {
		t.Errorf("epsilon %g, and more than delta has no bound on its loss", epsilon)
	}
}

// At the computed epsilon the divergence is delta, with the possible rounding loss added back at every point, also
// where the powers of e are 1 in float64. The noise is what was added back, and what may have wrapped around from
// below.
func TestPLDPutsRoundingBack(t *testing.T) {
	for _, mu := range []float64{0.01, 1e-18} {
		c := newComposition()
		c.parts = []lossPart{{discretize(gaussianPair{mu}, mu/10, 1e-9), 1e7}}
		const start, order, below = -20, 0.7, 1e-8
		tilted := make([]float64, 64)
		for i := range tilted {
			tilted[modulo(start+i, len(tilted))] = math.Exp(-square(float64(i-35)) / 90)
		}
		tilted[modulo(start+60, len(tilted))] = -1e-9 // as a transform may give
		log, rounding := c.logMoment(order), c.rounding(tilted)
		for _, share := range []float64{1e-6, 1e-3, 0.5} {
			weight := func(i int) float64 { return math.Exp(log - order*float64(i)*c.step()) }
			delta := share * c.step() * weight(0)
			epsilon, noise := c.solve(tilted, start, order, delta, below)
			if epsilon <= 0 {
				t.Fatalf("epsilon %g", epsilon)
			}
			sum, wantNoise := 0.0, 0.0
			at := start + len(tilted) - 1
			for ; float64(at)*c.step() > epsilon; at-- {
				mass := max(0, tilted[modulo(at, len(tilted))]) + rounding
				sum += mass * weight(at) * -math.Expm1(epsilon-float64(at)*c.step())
				wantNoise += rounding * weight(at)
			}
			closeTo(t, "divergence", sum, delta, 1e-9)
			closeTo(t, "noise", noise, wantNoise+below*weight(at+1), 1e-9)
		}
	}
}

// A figure with a tenth or more of rounding is rejected: without tilting, the far tail of a sum is only rounding.
func TestPLDDoesNotBelieveRounding(t *testing.T) {
	c, ok := compose([]countedPair{{gaussianPair{1}, 1}}, 1e-3, 1e-30)
	if !ok {
		t.Fatal("the grid has lost mass")
	}
	if epsilon := c.epsilon(1e-20, 0); !math.IsInf(epsilon, 1) {
		t.Errorf("epsilon %g from rounding", epsilon)
	}
	if epsilon, truth := c.epsilon(1e-20, 9), gdpEpsilon(1, 1e-20); epsilon < truth || epsilon > truth*1.001 {
		t.Errorf("tilted, epsilon is %g, the truth %g", epsilon, truth)
	}
}

// Losses whose powers of e are 1 in float64: no figure below the truth, none below 0.
func TestPLDOfTinyLosses(t *testing.T) {
	for _, epsilon0 := range []float64{1e-200, 1e-17, 1e-15, 1e-10} {
		for _, delta := range []float64{1e-250, 1e-30, 1e-20, 1e-12} {
			// One response: (e^epsilon0 - e^epsilon) / (1 + e^epsilon0) = delta.
			truth := max(0, epsilon0-2*delta)
			pairs := []countedPair{{responsePair{epsilon0}, 1}}
			if upper, lower := pairsEpsilon(pairs, delta, 0), lowest(pairs, delta); !(upper >= 0) ||
				upper < truth*(1-1e-6) || lower > truth {
				t.Errorf("epsilon0 %g, delta %g: %g and from below %g, the truth is %g", epsilon0, delta, upper,
					lower, truth)
			}
		}
	}
}

func BenchmarkPLD(b *testing.B) {
	for name, count := range map[string]int64{"steps=1e4": 1e4, "steps=1e6": 1e6} {
		b.Run(name, func(b *testing.B) {
			events := []Event{{Kind: SubsampledGaussian, Rate: 0.01, NoiseMultiplier: 1, Count: count}}
			var epsilon float64
			for b.Loop() {
				epsilon = composed(events, 1e-5)
			}
			b.ReportMetric(epsilon, "epsilon")
		})
	}
}
