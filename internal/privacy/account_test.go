package privacy

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/draws"
)

// Figures of Balle and Wang's analytic Gaussian mechanism, computed by an
// independent implementation of their Theorem 8.
func TestAccountGaussian(t *testing.T) {
	for _, c := range []struct {
		sigma, sensitivity float64
		count              int64
		delta, epsilon     float64
	}{
		{12.264, 1, 100, 1e-6, 3.8795892929632485},
		{82.516, 1, 1, 1e-6, 0.041420909555782225},
		{406.819, math.Sqrt2, 3, 1e-6, 0.01945976459070943},
		{0.969, math.Sqrt2, 1, 1e-8, 8.84633098798373},
		{3.698, math.Sqrt2, 1000, 1e-8, 140.17251069807807},
		{1.165, 1, 5000, 1e-5, 2099.888638289176},
	} {
		price := mustAccount(t, []Event{{Kind: Gaussian, Sigma: c.sigma, Sensitivity: c.sensitivity, Count: c.count}},
			c.delta)
		closeTo(t, "epsilon", price.Epsilon, c.epsilon, 1e-6)
		if price.Accountant != AccountantGDP || price.ByAccountant[AccountantPure] != nil {
			t.Errorf("accountant %q, pure %v; want gdp and none", price.Accountant, price.ByAccountant[AccountantPure])
		}
	}
}

// Costs per query, written independently of the code under test.
func TestRDPByHand(t *testing.T) {
	for _, alpha := range []float64{1.5, 2, 8, 256} {
		for _, c := range []struct {
			name string
			e    Event
			want float64
		}{
			{"gnmax", Event{Kind: GNMax, Sigma: 29.92, Count: 1}, alpha / (29.92 * 29.92)},
			{"gaussian", Event{Kind: Gaussian, Sigma: 4, Sensitivity: 3, Count: 2}, 2 * alpha * 9 / 32},
			{"threshold test", Event{Kind: ConfidentGNMax, Sigma1: 26.22, Sigma2: 5, Asked: 1},
				alpha / (2 * 26.22 * 26.22)},
			{"confident", Event{Kind: ConfidentGNMax, Threshold: 3, Sigma1: 20, Sigma2: 5, Asked: 7, Answered: 3},
				alpha * (7.0/800 + 3.0/25)},
			{"laplace", Event{Kind: Laplace, Epsilon: 0.5, Count: 1}, responseRDP(0.5, alpha)},
			{"lnmax", Event{Kind: LNMax, Lambda: 0.5, Count: 3}, 6 * responseRDP(0.5, alpha)},
		} {
			closeTo(t, c.name, mustRDP(t, c.e, alpha), c.want, 1e-9)
		}
	}
}

// responseRDP is the divergence of randomized response by its definition.
func responseRDP(epsilon, alpha float64) float64 {
	p := 1 / (1 + math.Exp(-epsilon))
	return math.Log(math.Pow(p, alpha)*math.Pow(1-p, 1-alpha)+math.Pow(1-p, alpha)*math.Pow(p, 1-alpha)) / (alpha - 1)
}

// The exponential mechanism when the scores of some outcomes rise by 1 and those of the others fall by 1, for every
// weight of the rising ones: no divergence exceeds the bound, and some are close below it.
func TestExponentialRDPByEnumeration(t *testing.T) {
	for _, epsilon := range []float64{0.01, 0.3, 1, 4} {
		for _, alpha := range []float64{1.5, 2, 8, 64} {
			bound, worst := mustRDP(t, Event{Kind: Exponential, Epsilon: epsilon, Count: 1}, alpha), 0.0
			for logOdds := -20.0; logOdds < 20; logOdds += 0.01 {
				w := 1 / (1 + math.Exp(-logOdds))
				up, down := w*math.Exp(epsilon/2), (1-w)*math.Exp(-epsilon/2)
				p := up / (up + down)
				moment := w*math.Pow(p/w, alpha) + (1-w)*math.Pow((1-p)/(1-w), alpha)
				worst = max(worst, math.Log(moment)/(alpha-1))
			}
			if worst > bound*(1+1e-9) {
				t.Errorf("epsilon %g, order %g: divergence %g, the bound is %g", epsilon, alpha, worst, bound)
			}
			if alpha*epsilon < 1 && worst < 0.9*bound {
				t.Errorf("epsilon %g, order %g: divergence %g at most, the bound %g is loose", epsilon, alpha, worst,
					bound)
			}
		}
	}
}

// One LNMax query costs less in Rényi terms than any (2 lambda, 0)-DP release
// can, and never more.
func TestLNMaxIsBelowItsPureBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lambda := rapid.Float64Range(1e-6, 20).Draw(t, "lambda")
		alpha := rapid.Float64Range(1.001, 1e4).Draw(t, "alpha")
		got, err := Event{Kind: LNMax, Lambda: lambda, Count: 1}.RDP(alpha)
		if err != nil {
			t.Fatal(err)
		}
		if bound := pureRDP(2*lambda, alpha); got > bound*(1+1e-9) {
			t.Fatalf("%g is above %g", got, bound)
		}
	})
}

func TestAccountPureAndMixed(t *testing.T) {
	one := mustAccount(t, []Event{{Kind: Laplace, Epsilon: 0.3, Count: 1}}, 1e-12)
	if pure := *one.ByAccountant[AccountantPure]; pure != 0.3 || one.Epsilon > 0.3 || one.Epsilon < 0.2999 {
		t.Errorf("one Laplace release costs %v, %v by pure DP; want 0.3", one.Epsilon, pure)
	}
	many := mustAccount(t, []Event{{Kind: LNMax, Lambda: 0.015, Count: 100}}, 1e-5)
	rdp := *many.ByAccountant[AccountantRDP]
	if many.Accountant != AccountantPLD || many.Epsilon >= rdp || rdp >= 1 {
		t.Errorf("100 LNMax queries cost %v by %s, %v by rdp; want pld below rdp, far below the sum 3", many.Epsilon,
			many.Accountant, rdp)
	}
	if running, err := Running([]Event{{Kind: LNMax, Lambda: 0.015, Count: 100}}, 1e-5); err != nil ||
		running.Epsilon != rdp {
		t.Errorf("the running figure is %v by %s (%v), want %v by rdp", running.Epsilon, running.Accountant, err, rdp)
	}
	gaussian := Event{Kind: GNMax, Sigma: 40, Count: 20}
	alone := mustAccount(t, []Event{gaussian}, 1e-5)
	mixed := mustAccount(t, []Event{gaussian, {Kind: Laplace, Epsilon: 0.02, Count: 1}}, 1e-5)
	gdp := *mixed.ByAccountant[AccountantGDP]
	if mixed.Accountant != AccountantPLD || mixed.Epsilon <= alone.Epsilon || mixed.Epsilon > gdp ||
		gdp > alone.Epsilon+0.02 {
		t.Errorf("mixed epsilon is %v by %s, %v by gdp, alone %v", mixed.Epsilon, mixed.Accountant, gdp, alone.Epsilon)
	}
	nothing := mustAccount(t, nil, 1e-5)
	if nothing.Epsilon != 0 {
		t.Errorf("nothing costs %v", nothing.Epsilon)
	}
}

func TestClaimJSON(t *testing.T) {
	price := mustAccount(t, []Event{{Kind: Gaussian, Sigma: 1e9, Sensitivity: 1, Count: 1}}, 0.5)
	raw, err := json.Marshal(price)
	testkit.Must(t, err)
	want := `{"delta":0.5,"epsilon":0,"accountant":"gdp","by_accountant":{"gdp":0,"pld":0,"pure":null,"rdp":0}}`
	if string(raw) != want {
		t.Errorf("price is %s, want %s", raw, want)
	}
}

// No event is free, however small the square of its cost: at a very small delta it has an epsilon.
func TestNoEventIsFree(t *testing.T) {
	for _, e := range []Event{
		{Kind: Gaussian, Sigma: 1e200, Sensitivity: 1, Count: 1},
		{Kind: Gaussian, Sigma: math.MaxFloat64, Sensitivity: math.SmallestNonzeroFloat64, Count: 1},
		{Kind: Gaussian, Sigma: 4e161, Sensitivity: 1, Count: 1}, // the square has few digits
		{Kind: GNMax, Sigma: 1e300, Count: 7},
		{Kind: ConfidentGNMax, Sigma1: 1e200, Sigma2: 1e200, Asked: 1},
		{Kind: SubsampledGaussian, Rate: 1, NoiseMultiplier: 1e200, Count: 1},
		{Kind: SubsampledGaussian, Rate: 1e-200, NoiseMultiplier: 1e200, Count: 1},
		{Kind: LNMax, Lambda: 1e-200, Count: 1},
		{Kind: Laplace, Epsilon: 1e-200, Count: 1},
		{Kind: Laplace, Epsilon: math.SmallestNonzeroFloat64, Count: 1},
		{Kind: Exponential, Epsilon: 1e-200, Count: 1},
	} {
		for _, alpha := range []float64{1 + 1e-15, 1.001, 2, 4096} {
			if rho := mustRDP(t, e, alpha); !(rho > 0) {
				t.Errorf("%+v has divergence %g of order %g", e, rho, alpha)
			}
		}
		if mu2 := mechanisms[e.Kind].muSquared(e); !(mu2 > 0) {
			t.Errorf("%+v has mu² %g", e, mu2)
		}
		for name, epsilon := range mustAccount(t, []Event{e}, 1e-250).ByAccountant {
			if epsilon != nil && !(*epsilon > 0) {
				t.Errorf("%+v costs %g by %s", e, *epsilon, name)
			}
		}
	}
}

// The same for everything that passes Validate.
func TestNoValidEventHasCostZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) float64 {
			return math.Pow(10, rapid.Float64Range(-300, 300).Draw(t, name))
		}
		rate := math.Pow(10, rapid.Float64Range(-300, 0).Draw(t, "rate"))
		e := eventOf(rapid.SampledFrom(kinds).Draw(t, "kind"), number("noise"), number("more"), rate, 1, 0)
		alpha := rapid.SampledFrom(orders).Draw(t, "alpha")
		if rho, err := e.RDP(alpha); err == nil && !(rho > 0) {
			t.Fatalf("%+v has divergence %g of order %g", e, rho, alpha)
		}
		// NaN, as for no answers with almost no noise, has no figure.
		if mu2 := mechanisms[e.Kind].muSquared(e); mu2 <= 0 {
			t.Fatalf("%+v has mu² %g", e, mu2)
		}
	})
}

func TestAccountRefuses(t *testing.T) {
	ok := []Event{{Kind: Laplace, Epsilon: 1, Count: 1}}
	for _, delta := range []float64{0, 1, -1, 2, math.NaN(), math.Inf(1)} {
		var field *FieldError
		if _, err := Account(ok, delta); !errors.As(err, &field) || field.Field != "delta" {
			t.Errorf("delta %v: error is %v", delta, err)
		}
		if _, err := FilterGDP.Epsilon(ok, delta); err == nil {
			t.Errorf("delta %v: the filter has no error", delta)
		}
	}
	for _, tiny := range []Event{
		{Kind: GNMax, Sigma: 1e-300, Count: 1},
		{Kind: ConfidentGNMax, Sigma1: 1, Sigma2: 1e-300, Asked: 1},
		{Kind: LNMax, Lambda: math.MaxFloat64, Count: 2},
	} {
		if price, err := Account([]Event{tiny}, 1e-5); err == nil {
			t.Errorf("%+v: no error but %+v", tiny, price)
		}
		b := Budget{Epsilon: 1e300, Delta: 0.5}
		if _, err := b.Admit(nil, []Event{tiny}); err == nil {
			t.Errorf("%+v: the filter admits it", tiny)
		}
	}
	for _, alpha := range []float64{1, 0.5, math.NaN(), math.Inf(1)} {
		if _, err := ok[0].RDP(alpha); err == nil {
			t.Errorf("order %v: no error", alpha)
		}
	}
}

// eventOf is an event with noise a and, if the kind has them, sensitivity or second noise b and a rate.
func eventOf(kind Kind, a, b, rate float64, count, answered int64) Event {
	e := Event{Kind: kind, Count: count}
	switch kind {
	case Gaussian:
		e.Sigma, e.Sensitivity = a, b
	case SubsampledGaussian:
		e.NoiseMultiplier, e.Rate = a, rate
	case GNMax:
		e.Sigma = a
	case ConfidentGNMax:
		e = Event{Kind: kind, Threshold: 10, Sigma1: a, Sigma2: b, Asked: count, Answered: answered}
	case LNMax:
		e.Lambda = a
	default:
		e.Epsilon = a
	}
	return e
}

// drawEvent draws events of all kinds, from cheap to expensive.
func drawEvent(t *rapid.T) Event {
	logUniform := func(name string, lo, hi float64) float64 {
		return math.Exp(rapid.Float64Range(math.Log(lo), math.Log(hi)).Draw(t, name))
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	noise := map[Kind][2]float64{Gaussian: {0.5, 1e4}, SubsampledGaussian: {0.4, 100}, GNMax: {1, 1e4},
		ConfidentGNMax: {1, 1e4}, LNMax: {1e-5, 1}, Laplace: {1e-5, 1}, Exponential: {1e-5, 1}}[kind]
	count := rapid.Int64Range(1, 2000).Draw(t, "count")
	a, b, rate, answered := logUniform("noise", noise[0], noise[1]), 0.0, 0.0, int64(0)
	switch kind {
	case Gaussian:
		b = logUniform("sensitivity", 0.1, 10)
	case SubsampledGaussian:
		rate = logUniform("rate", 1e-3, 1)
	case ConfidentGNMax:
		b, answered = logUniform("sigma2", 1, 1e4), rapid.Int64Range(0, count).Draw(t, "answered")
	}
	return eventOf(kind, a, b, rate, count, answered)
}

func drawEvents(t *rapid.T, atMost int) []Event {
	return rapid.SliceOfN(rapid.Custom(drawEvent), 0, atMost).Draw(t, "events")
}

// The orders that the search for the best order skips are no better.
func TestTheBestOrderIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := Merge(drawEvents(t, 3))
		delta := math.Exp(-rapid.Float64Range(0.01, 30).Draw(t, "-log delta"))
		rho := make([]float64, len(orders))
		for i, alpha := range orders {
			rho[i] = totalRDP(events, alpha)
		}
		if got, want := rdpEpsilon(events, delta), EpsilonFromRDP(rho, delta); got != want {
			t.Fatalf("epsilon %.17g, over all orders %.17g", got, want)
		}
	})
}

var drawDelta = rapid.SampledFrom([]float64{1e-12, 1e-8, 1e-5, 1e-2})

func TestAddingAnEventNeverLowersEpsilon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t, 4)
		more := append(append([]Event(nil), events...), drawEvent(t))
		delta := drawDelta.Draw(t, "delta")
		before, err := Running(events, delta)
		if err != nil {
			t.Fatal(err)
		}
		after, err := Running(more, delta)
		if err != nil {
			t.Fatal(err)
		}
		if after.Epsilon < before.Epsilon*(1-1e-12) {
			t.Fatalf("epsilon falls from %v to %v", before.Epsilon, after.Epsilon)
		}
		if FilterGDP.epsilon(Merge(more), delta) < FilterGDP.epsilon(Merge(events), delta)*(1-1e-12) {
			t.Fatal("the filter's epsilon falls")
		}
	})
}

func TestClaimIsTheSmallestAndBelowTheFilter(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	draws.Costly(t, func(t *rapid.T) {
		events, delta := drawEvents(t, 4), drawDelta.Draw(t, "delta")
		price, err := Account(events, delta)
		if err != nil {
			t.Fatal(err)
		}
		for name, epsilon := range price.ByAccountant {
			if epsilon != nil && *epsilon < price.Epsilon {
				t.Fatalf("%s has %v, the price is %v", name, *epsilon, price.Epsilon)
			}
		}
		running, err := Running(events, delta)
		if err != nil {
			t.Fatal(err)
		}
		if running.Epsilon < price.Epsilon {
			t.Fatalf("the running figure %v is below the price %v", running.Epsilon, price.Epsilon)
		}
		if filter := FilterGDP.epsilon(Merge(events), delta); running.Epsilon > filter*(1+1e-12) {
			t.Fatalf("the running figure %v is above the filter's %v", running.Epsilon, filter)
		}
		smaller, err := Running(events, delta/10)
		if err != nil {
			t.Fatal(err)
		}
		if smaller.Epsilon < running.Epsilon*(1-1e-12) {
			t.Fatal("epsilon falls with delta")
		}
	})
}

// Any single event gives a price that is finite, nonnegative and at most the running figure, or an error.
func FuzzAccount(f *testing.F) {
	f.Add(uint8(1), 1.0, 0.01, int64(1000), 1e-5)
	f.Add(uint8(0), 1e-300, 1e300, int64(1), 1e-300)
	f.Add(uint8(6), 700.0, 0.0, int64(3), 0.999)
	f.Add(uint8(4), 1e-9, 0.0, int64(99), 1e-12)
	f.Fuzz(func(t *testing.T, kind uint8, a, b float64, count int64, delta float64) {
		e := eventOf(kinds[int(kind)%len(kinds)], a, b, b, count, count/2)
		price, err := Account([]Event{e}, delta)
		if err != nil {
			return
		}
		running, err := Running([]Event{e}, delta)
		if err == nil && price.Epsilon > running.Epsilon {
			t.Fatalf("%+v: price %g, running %g", e, price.Epsilon, running.Epsilon)
		}
		if !(price.Epsilon >= 0) || math.IsInf(price.Epsilon, 0) {
			t.Fatalf("%+v: price is %+v", e, price)
		}
	})
}
