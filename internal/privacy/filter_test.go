package privacy

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestUnknownFilter(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5, Filter: "renyi"}
	if err := b.Validate(); err == nil {
		t.Error("an unknown filter was accepted")
	}
	if _, err := b.Admit(nil, []Event{{Kind: GNMax, Sigma: 100, Count: 1}}); err == nil {
		t.Error("an unknown filter admitted a release")
	}
	if _, err := Filter("renyi").Epsilon(nil, 1e-5); err == nil {
		t.Error("an unknown filter has a figure")
	}
}

func TestNothingCostsNothing(t *testing.T) {
	for filter := range filterRules {
		if epsilon, err := filter.Epsilon(nil, 1e-5); err != nil || epsilon != 0 {
			t.Errorf("nothing costs %v with filter %s, %v", epsilon, filter, err)
		}
	}
}

// Whatever is admitted, in whatever order, has divergences that together stay within the budget: recomputed here from
// the sum at the filter's own order, and by all accountants of the list.
func TestRDPFilterNeverAdmitsPastTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{
			Epsilon: math.Exp(rapid.Float64Range(math.Log(0.05), math.Log(30)).Draw(t, "log epsilon")),
			Delta:   drawDelta.Draw(t, "delta"), Filter: FilterRDP,
		}
		var spent []Event
		for range rapid.IntRange(1, 6).Draw(t, "questions") {
			next := drawEvent(t)
			_, err := b.Admit(spent, []Event{next})
			if err == nil {
				spent = append(spent, next)
				continue
			}
			if !errors.Is(err, ErrOverBudget) {
				t.Fatal(err)
			}
			var refusal *OverBudgetError
			if errors.As(err, &refusal) && !(refusal.Needed > b.Epsilon*(1-1e-9)) {
				t.Fatalf("refused although %g of %g would do", refusal.Needed, b.Epsilon)
			}
		}
		alpha := orderOf(b)
		byOrder, pure := math.Log((alpha-1)/alpha)-(math.Log(b.Delta)+math.Log(alpha))/(alpha-1), 0.0
		for _, e := range spent {
			cost, err := e.RDP(alpha)
			if err != nil {
				t.Fatal(err)
			}
			byOrder += cost
			pure += pureEpsilon([]Event{e})
		}
		if min(byOrder, pure) > b.Epsilon*(1+1e-9) {
			t.Fatalf("%g at order %g and %g by pure DP, the budget is %g", byOrder, alpha, pure, b.Epsilon)
		}
		price, err := Running(spent, b.Delta)
		if err != nil {
			t.Fatal(err)
		}
		if price.Epsilon > b.Epsilon*(1+1e-9) {
			t.Fatalf("price %g, budget %g", price.Epsilon, b.Epsilon)
		}
	})
}

// FilterRDP admits exactly as many as its rule says: at the order of the budget, divergence and conversion together
// stay within epsilon.
func TestRDPFilterKeepsItsRule(t *testing.T) {
	for _, b := range []Budget{{0.3, 1e-3, FilterRDP, 0}, {1, 1e-5, FilterRDP, 0}, {8, 1e-9, FilterRDP, 0}} {
		used := func(e Event) (epsilon float64) {
			o := b.order()
			for _, at := range []struct{ weight, alpha float64 }{{1 - o.weight, o.a}, {o.weight, o.b}} {
				epsilon += at.weight * (mustRDP(t, e, at.alpha) + math.Log((at.alpha-1)/at.alpha) -
					(math.Log(b.Delta)+math.Log(at.alpha))/(at.alpha-1))
			}
			return epsilon
		}
		for _, e := range []Event{
			{Kind: Gaussian, Sigma: 300, Sensitivity: 1}, {Kind: GNMax, Sigma: 500}, {Kind: LNMax, Lambda: 1e-3},
			{Kind: SubsampledGaussian, Rate: 0.01, NoiseMultiplier: 3}, {Kind: Exponential, Epsilon: 1e-3},
		} {
			n, err := b.Admits(nil, e)
			if err != nil || n < 10 {
				t.Fatalf("%+v admits %d of %+v (%v)", b, n, e, err)
			}
			if used := used(e.Times(n)); used > b.Epsilon*(1+1e-12) {
				t.Errorf("%+v admits %d of %+v, which use %.9g", b, n, e, used)
			}
			if used := used(e.Times(n + 1)); used <= b.Epsilon*(1-1e-12) {
				t.Errorf("%+v refuses %d of %+v, which use %.9g", b, n+1, e, used)
			}
		}
	}
}

// As pure DP a budget admits its epsilon and no more: delta is too small for anything else to fit.
func TestFiltersKeepThePureBudget(t *testing.T) {
	for _, filter := range []Filter{FilterGDP, FilterRDP} {
		b := Budget{Epsilon: 1, Delta: 1e-9, Filter: filter}
		if _, err := b.Admit(nil, []Event{{Kind: Laplace, Epsilon: 0.25, Count: 4}}); err != nil {
			t.Errorf("%s: four quarters of the budget: %v", filter, err)
		}
		for _, next := range []Event{{Kind: Laplace, Epsilon: 0.2501, Count: 4},
			{Kind: LNMax, Lambda: 0.501, Count: 1}} {
			if _, err := b.Admit(nil, []Event{next}); !errors.Is(err, ErrOverBudget) {
				t.Errorf("%s: %+v is above the budget and gives %v", filter, next, err)
			}
		}
	}
}

// What each of the two filters is best for, as their comments say.
func TestFiltersCompared(t *testing.T) {
	gdp, rdp := Budget{Epsilon: 1, Delta: 1e-5}, Budget{Epsilon: 1, Delta: 1e-5, Filter: FilterRDP}
	most := func(b Budget, e Event) int64 { return testkit.Value(b.Admits(nil, e)) }
	gaussian := Event{Kind: Gaussian, Sigma: 500, Sensitivity: 1}
	if a, b := most(gdp, gaussian), most(rdp, gaussian); b >= a || float64(b) < 0.8*float64(a) {
		t.Errorf("gdp admits %d Gaussian releases, rdp %d; want somewhat fewer", a, b)
	}
	sampled := Event{Kind: SubsampledGaussian, Rate: 0.01, NoiseMultiplier: 1.5}
	if a, b := most(gdp, sampled), most(rdp, sampled); b < 100*max(a, 1) {
		t.Errorf("gdp admits %d samples, rdp %d; want far more", a, b)
	}
	// The order must not depend on what was spent.
	before := rdp.order()
	if _, err := rdp.Admit([]Event{sampled.Times(100)}, []Event{gaussian.Times(10)}); err != nil {
		t.Fatal(err)
	}
	if after := rdp.order(); after != before {
		t.Errorf("order %v before, %v after", before, after)
	}
}

// GNMaxSigma and Room work with either filter.
func TestCalibrationUnderTheRDPFilter(t *testing.T) {
	b := Budget{Epsilon: 2, Delta: 1e-6, Filter: FilterRDP}
	share := []Event{{Kind: Laplace, Epsilon: 0.05, Count: 1}}
	sigma, err := GNMaxSigma(b, 500, share)
	testkit.Must(t, err)
	votes := Event{Kind: GNMax, Sigma: sigma, Count: 500}
	if _, err := b.Admit(share, []Event{votes}); err != nil {
		t.Errorf("the calibrated noise is refused: %v", err)
	}
	votes.Count += 5
	if _, err := b.Admit(share, []Event{votes}); !errors.Is(err, ErrOverBudget) {
		t.Errorf("more queries are admitted (%v): too much noise", err)
	}
	if err := b.Room(nil, b); err != nil {
		t.Errorf("an empty budget has no room for a run of its own size: %v", err)
	}
	if err := b.Room([]Event{votes.Times(400)}, b); !errors.Is(err, ErrOverBudget) {
		t.Errorf("a spent budget has room: %v", err)
	}
	if spent, err := FilterRDP.Epsilon([]Event{votes.Times(500)}, b.Delta); err != nil || spent > b.Epsilon ||
		spent < 0.9*b.Epsilon {
		t.Errorf("500 queries count as %v of %v (%v)", spent, b.Epsilon, err)
	}
}

func TestAdmits(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5}
	share := []Event{{Kind: Laplace, Epsilon: 0.02, Count: 1}}
	for _, next := range []Event{
		{Kind: GNMax, Sigma: 100}, {Kind: LNMax, Lambda: 0.01},
		{Kind: ConfidentGNMax, Threshold: 10, Sigma1: 300, Sigma2: 100}, {Kind: GNMax, Sigma: 1},
	} {
		n, err := b.Admits(share, next)
		testkit.Must(t, err)
		if n > 0 {
			if _, err := b.Admit(share, []Event{next.Times(n)}); err != nil {
				t.Errorf("%s: %d are not admitted: %v", next.Kind, n, err)
			}
		}
		if _, err := b.Admit(share, []Event{next.Times(n + 1)}); !errors.Is(err, ErrOverBudget) {
			t.Errorf("%s: one more than %d is admitted (%v)", next.Kind, n, err)
		}
	}
	if n, err := b.Admits(nil, Event{Kind: GNMax, Sigma: 1e9}); err != nil || n != 1<<40 {
		t.Errorf("next to no cost: %d (%v)", n, err)
	}
	if _, err := b.Admits(nil, Event{Kind: GNMax}); err == nil {
		t.Error("no noise was counted")
	}
	if _, err := (Budget{}).Admits(nil, Event{Kind: GNMax, Sigma: 1}); err == nil {
		t.Error("no budget was counted")
	}
}

// So many samples that each costs less than the last digits of a number near 1: the sum of their losses is normal,
// mu² = n q² (e^(1/sigma²) - 1), and no figure may be below it.
func TestVeryManySamples(t *testing.T) {
	for _, c := range []struct {
		rate, multiplier float64
		count            int64
	}{{0.01, 1e3, 1e8}, {0.001, 30, 1e7}, {1e-9, 1, 1e18}, {0.5, 1e9, 1e18}, {0.01, 1e7, 1e18}, {0.01, 1e6, 1e16},
		{0.5, 1.58e8, 1e13}} {
		e := Event{Kind: SubsampledGaussian, Rate: c.rate, NoiseMultiplier: c.multiplier, Count: c.count}
		truth := gdpEpsilon(math.Sqrt(float64(c.count)*math.Expm1(1/square(c.multiplier)))*c.rate, 1e-5)
		price, err := Running([]Event{e}, 1e-5)
		if err == nil && price.Epsilon < truth*0.999 {
			t.Errorf("%+v: epsilon %g, the truth is %g", e, price.Epsilon, truth)
		}
	}
}
