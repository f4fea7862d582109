package privacy

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// orderOf is the order alpha between the two neighbours of b.order.
func orderOf(b Budget) float64 {
	o := b.order()
	if o.a == o.b {
		return o.a
	}
	// 1 = (1-s) + s, where the weights are (1-s) (a-1)/(alpha-1) and s (b-1)/(alpha-1).
	return 1 + 1/((1-o.weight)/(o.a-1)+o.weight/(o.b-1))
}

var drawBudget = rapid.Custom(func(t *rapid.T) Budget {
	return Budget{
		Epsilon: math.Exp(rapid.Float64Range(math.Log(1e-4), math.Log(1e3)).Draw(t, "log epsilon")),
		Delta:   math.Exp(-rapid.Float64Range(0.01, 60).Draw(t, "-log delta")), Filter: FilterRDP,
	}
})

// The order is on or between two neighbours of the grid, and no other lets more Gaussian releases through.
func TestTheOrderOfABudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBudget.Draw(t, "budget")
		o, alpha := b.order(), orderOf(b)
		if !(o.a <= alpha && alpha <= o.b && o.weight >= 0 && o.weight < 1) {
			t.Fatalf("%v stands for %g", o, alpha)
		}
		room := func(alpha float64) float64 { return (b.Epsilon - conversion(alpha, b.Delta)) / alpha }
		for _, other := range orders {
			if other > maxSubsampledOrder {
				break
			}
			if other < o.a || other > o.b {
				if room(other) > room(alpha)+1e-9*math.Abs(room(alpha)) {
					t.Fatalf("order %g, but %g has more room: %g to %g", alpha, other, room(other), room(alpha))
				}
			}
		}
	})
}

// Its mean is an upper bound: of the divergence at the order, of the conversion, and of the
// smaller of the two epsilons, which a running figure may state.
func TestTheMeanOfTwoOrdersIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, events := drawBudget.Draw(t, "budget"), Merge(drawEvents(t, 3))
		o, alpha := b.order(), orderOf(b)
		for _, e := range events {
			if e.Kind == Exponential {
				continue // its cost is the smaller of two bounds, which is not convex
			}
			cost, err := e.RDP(alpha)
			if err != nil {
				t.Skip("does not come out as a number")
			}
			bound := o.mean(func(alpha float64) float64 { return totalRDP([]Event{e}, alpha) })
			if cost > bound*(1+1e-9)+float64(e.Count)*momentError(alpha)/(alpha-1) {
				t.Fatalf("%+v at %g costs %.12g, bounded by %.12g", e, alpha, cost, bound)
			}
		}
		epsilon, convert := o.epsilon(events, b.Delta), conversion(alpha, b.Delta)
		if bound := o.epsilon(nil, b.Delta); convert > bound+1e-9*math.Abs(bound) {
			t.Fatalf("conversion %.12g, bounded by %.12g", convert, bound)
		}
		for _, alpha := range []float64{o.a, o.b} {
			if totalRDP(events, alpha)+conversion(alpha, b.Delta) <= epsilon+1e-12*math.Abs(epsilon) {
				return
			}
		}
		t.Fatalf("%.12g is below both orders' epsilons", epsilon)
	})
}

// A larger budget admits whatever a smaller one does, however small the difference.
func TestALargerBudgetAdmitsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, events := drawBudget.Draw(t, "budget"), Merge(drawEvents(t, 4))
		needed := FilterRDP.epsilon(events, b.Delta)
		for _, share := range []float64{1e-9, 1e-6, 1e-3, 0.03, rapid.Float64Range(1e-9, 10).Draw(t, "more")} {
			if more := (Budget{needed * (1 + share), b.Delta, FilterRDP, 0}); !math.IsInf(needed, 1) &&
				!more.fits(events) {
				t.Fatalf("%.12g would do, %.12g does not", needed, more.Epsilon)
			}
			if less := (Budget{needed / (1 + share), b.Delta, FilterRDP, 0}); less.Epsilon > 0 && less.fits(events) {
				t.Fatalf("%.12g is said to be needed, %.12g does", needed, less.Epsilon)
			}
		}
	})
}

// Randomized response hardly costs more at a higher order. So earlier, a budget with an epsilon between two orders of
// the grid could be worse than a smaller one.
func TestNoBudgetIsWorseThanASmallerOne(t *testing.T) {
	events := []Event{
		{Kind: Laplace, Epsilon: 0.999525860, Count: 1}, {Kind: Laplace, Epsilon: 0.173773943, Count: 21},
		{Kind: ConfidentGNMax, Threshold: 10, Sigma1: 1, Sigma2: 1, Asked: 2, Answered: 2},
	}
	needed, err := FilterRDP.Epsilon(events, 1e-5)
	testkit.Must(t, err)
	for k := range 2000 {
		b := Budget{needed * (1 + 1e-9 + float64(k)/1000), 1e-5, FilterRDP, 0}
		if _, err := b.admit(nil, events); err != nil {
			t.Fatal(err)
		}
	}
}
