package privacy

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func gaussianOf(sigma float64, count int64) []Event {
	return []Event{{Kind: Gaussian, Sigma: sigma, Sensitivity: 1, Count: count}}
}

// Squares of mu add up, so the remainder beside runs of known budgets can be computed by hand.
func TestWhatIsLeftBesideRunsByHand(t *testing.T) {
	b := Budget{Epsilon: 5, Delta: 1e-5}
	mu := func(epsilon float64) float64 { return gdpMu(epsilon, 1e-5) }
	open := []Spending{
		{Budget: Budget{Epsilon: 2, Delta: 1e-5}, Spent: gaussianOf(4, 1)},
		{Budget: Budget{Epsilon: 1, Delta: 1e-5}},
	}
	// The dataset has what the first run spent and what a closed run did.
	r, err := Reserve(Merge(append(gaussianOf(4, 1), gaussianOf(2, 1)...)), open)
	testkit.Must(t, err)
	want := gdpEpsilon(math.Sqrt(square(mu(2))+square(mu(1))+0.25), 1e-5)
	if got, err := b.Taken(r); err != nil || math.Abs(got-want) > 1e-6 {
		t.Errorf("taken %v, %v; want %v", got, err, want)
	}
	want = gdpEpsilon(math.Sqrt(square(mu(5))-square(mu(2))-square(mu(1))-0.25), 1e-5)
	left, err := b.Left(r, 1e-5)
	if err != nil || left > want+1e-9 || left < want*(1-1e-5) {
		t.Errorf("left %v, %v; want %v", left, err, want)
	}
	if left <= 5-2-1-0.25 {
		t.Errorf("left %v: budgets were subtracted", left)
	}
}

func TestNothingIsLeft(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5}
	r, err := Reserve(nil, []Spending{{Budget: b}})
	testkit.Must(t, err)
	if left, err := b.Left(r, 1e-5); err != nil || left != 0 {
		t.Errorf("%v, %v is left beside a run that may spend all", left, err)
	}
	if err := b.RoomBeside(r, Budget{Epsilon: 0.5, Delta: 1e-5}, nil); !errors.Is(err, ErrOverBudget) {
		t.Errorf("room beside it: %v", err)
	}
	if _, err := Reserve(nil, []Spending{{}}); err == nil {
		t.Error("a run without a budget was reserved for")
	}
	if _, err := b.Left(r, 2); err == nil {
		t.Error("a run with delta 2")
	}
}

// With filter pld there is one run.
func TestPLDIsAllOrNothing(t *testing.T) {
	b := Budget{Epsilon: 3, Delta: 1e-5, Filter: FilterPLD}
	plan := planned(sampled(0.1, 2, 10))
	none, err := Reserve(nil, nil)
	testkit.Must(t, err)
	if err := b.RoomBeside(none, b, plan); err != nil {
		t.Errorf("the only run: %v", err)
	}
	if left, err := b.Left(none, 1e-5); err != nil || left != 3 {
		t.Errorf("left %v, %v", left, err)
	}
	one, err := Reserve(nil, []Spending{{Budget: b, Plan: plan}})
	testkit.Must(t, err)
	if err := b.RoomBeside(one, b, plan); !errors.Is(err, ErrPlan) {
		t.Errorf("a second run: %v", err)
	}
	if left, err := b.Left(one, 1e-5); err != nil || left != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// The remainder fits, slightly more does not, and runs that fit together never take more than the budget.
func TestLeftIsTheBorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{
			Epsilon: rapid.Float64Range(0.5, 20).Draw(t, "epsilon"), Delta: 1e-5,
			Filter: rapid.SampledFrom([]Filter{FilterGDP, FilterRDP}).Draw(t, "filter"),
		}
		var runs []Spending
		var spent []Event
		for range rapid.IntRange(0, 3).Draw(t, "runs") {
			own := Budget{Epsilon: rapid.Float64Range(0.05, 5).Draw(t, "own"), Delta: 1e-5}
			part := gaussianOf(own.whole().Sigma*rapid.Float64Range(1.1, 10).Draw(t, "part"), 1)
			now, err := Reserve(spent, runs)
			if err != nil {
				t.Fatal(err)
			}
			if b.RoomBeside(now, own, nil) != nil {
				continue
			}
			runs, spent = append(runs, Spending{Budget: own, Spent: part}), Merge(append(spent, part...))
		}
		r, err := Reserve(spent, runs)
		if err != nil {
			t.Fatal(err)
		}
		taken, err := b.Taken(r)
		if err != nil || taken > b.Epsilon*(1+1e-6) {
			t.Fatalf("%d runs that fit take %v of %v (%v)", len(runs), taken, b.Epsilon, err)
		}
		left, err := b.Left(r, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		if left > 0 && b.RoomBeside(r, Budget{Epsilon: left, Delta: 1e-5}, nil) != nil {
			t.Fatalf("%v is left and does not fit", left)
		}
		if b.RoomBeside(r, Budget{Epsilon: left*(1+1e-4) + 2e-4*b.Epsilon, Delta: 1e-5}, nil) == nil {
			t.Fatalf("%v is left and more fits", left)
		}
	})
}
