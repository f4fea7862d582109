package privacy

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestNewBudget(t *testing.T) {
	if b, err := NewBudget(1, 1e-5); err != nil || b != (Budget{Epsilon: 1, Delta: 1e-5}) {
		t.Errorf("got %+v, %v", b, err)
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		epsilon, delta float64
		field          string
	}{
		{0, 1e-5, "epsilon"}, {-1, 1e-5, "epsilon"}, {nan, 1e-5, "epsilon"}, {inf, 1e-5, "epsilon"},
		{1, 0, "delta"}, {1, 1, "delta"}, {1, -0.1, "delta"}, {1, 1.1, "delta"}, {1, nan, "delta"},
	} {
		var field *FieldError
		if _, err := NewBudget(c.epsilon, c.delta); !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("(%v, %v): error is %v, want one about %s", c.epsilon, c.delta, err, c.field)
		}
		b := Budget{Epsilon: c.epsilon, Delta: c.delta}
		if _, err := b.Admit(nil, validEvents[1:2]); err == nil {
			t.Errorf("(%v, %v) admits", c.epsilon, c.delta)
		}
	}
}

func TestAdmit(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5}
	spent := []Event{{Kind: GNMax, Sigma: 80, Count: 100}}
	next := []Event{{Kind: GNMax, Sigma: 80, Count: 10}}
	price, err := b.Admit(spent, next)
	testkit.Must(t, err)
	together := mustAccount(t, []Event{{Kind: GNMax, Sigma: 80, Count: 110}}, 1e-5)
	closeTo(t, "price", price.Epsilon, together.Epsilon, 1e-12)
	if spent[0].Count != 100 || len(next) != 1 {
		t.Error("the lists were changed")
	}

	_, err = b.Admit(spent, []Event{{Kind: GNMax, Sigma: 80, Count: 1000}})
	var over *OverBudgetError
	if !errors.Is(err, ErrOverBudget) || !errors.As(err, &over) {
		t.Fatalf("error is %v", err)
	}
	closeTo(t, "spent", over.Spent, mustAccount(t, spent, 1e-5).Epsilon, 1e-12)
	if over.Needed <= 1 || over.Budget != b || !strings.Contains(err.Error(), "budget is epsilon 1") {
		t.Errorf("error is %v", err)
	}
	if _, err := b.Admit(spent, []Event{{Kind: GNMax, Sigma: 80}}); err == nil || errors.Is(err, ErrOverBudget) {
		t.Errorf("an invalid event: error is %v", err)
	}
}

// An adaptive analyst with arbitrary questions never gets a list past either of the two rules, nor a price above the
// budget.
func TestFilterNeverAdmitsPastTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{Epsilon: rapid.SampledFrom([]float64{0.1, 1, 10, 200}).Draw(t, "epsilon"),
			Delta: drawDelta.Draw(t, "delta")}
		var spent []Event
		for range rapid.IntRange(1, 8).Draw(t, "questions") {
			next := []Event{drawEvent(t)}
			price, err := b.Admit(spent, next)
			if errors.Is(err, ErrOverBudget) {
				var over *OverBudgetError
				if errors.As(err, &over); over.Needed < b.Epsilon*(1-1e-9) {
					t.Fatalf("refused at %v of %v", over.Needed, b.Epsilon)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			spent = append(spent, next...)
			if price.Epsilon > b.Epsilon*(1+1e-12) {
				t.Fatalf("price %v passes the budget %v", price.Epsilon, b.Epsilon)
			}
			// The rules again, from their definitions.
			mu2, pure := 0.0, 0.0
			for _, e := range spent {
				switch n := float64(e.Count); e.Kind {
				case Gaussian:
					mu2 += n * e.Sensitivity * e.Sensitivity / e.Sigma / e.Sigma
					pure = math.Inf(1)
				case GNMax:
					mu2 += n * 2 / e.Sigma / e.Sigma
					pure = math.Inf(1)
				case ConfidentGNMax:
					mu2 += float64(e.Asked)/e.Sigma1/e.Sigma1 + float64(e.Answered)*2/e.Sigma2/e.Sigma2
					pure = math.Inf(1)
				case SubsampledGaussian:
					mu2 += n / e.NoiseMultiplier / e.NoiseMultiplier
					pure = math.Inf(1)
				case Exponential:
					mu2 += n * math.Pow(2*distuv.UnitNormal.Quantile((1+math.Tanh(e.Epsilon/4))/2), 2)
					pure += n * e.Epsilon
				case LNMax:
					mu2 += 2 * n * math.Pow(pureMu(e.Lambda), 2)
					pure += 2 * n * e.Lambda
				default:
					mu2 += n * math.Pow(pureMu(e.Epsilon), 2)
					pure += n * e.Epsilon
				}
			}
			if pure > b.Epsilon*(1+1e-12) && gdpEpsilon(math.Sqrt(mu2), b.Delta) > b.Epsilon*(1+1e-9) {
				t.Fatalf("admitted %+v under %+v", spent, b)
			}
		}
	})
}

func TestCalibration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{Epsilon: rapid.SampledFrom([]float64{0.1, 1, 3, 10}).Draw(t, "epsilon"),
			Delta: drawDelta.Draw(t, "delta")}
		queries := rapid.Int64Range(1, 100000).Draw(t, "queries")
		var other []Event
		if rapid.Bool().Draw(t, "with class shares") {
			other = []Event{{Kind: Laplace, Epsilon: b.Epsilon / 20, Count: 1}}
		}
		sigma, err := GNMaxSigma(b, queries, other)
		if err != nil {
			t.Fatal(err)
		}
		fits := func(e Event) bool {
			_, err := b.Admit(other, []Event{e})
			return err == nil
		}
		if !fits(Event{Kind: GNMax, Sigma: sigma, Count: queries}) {
			t.Fatalf("sigma %v does not fit", sigma)
		}
		if sigma > MinSigma && fits(Event{Kind: GNMax, Sigma: sigma * (1 - 1e-6), Count: queries}) {
			t.Fatalf("sigma %v is not the smallest", sigma)
		}
		lambda, err := LNMaxLambda(b, queries, other)
		if err != nil {
			t.Fatal(err)
		}
		if !fits(Event{Kind: LNMax, Lambda: lambda, Count: queries}) {
			t.Fatalf("lambda %v does not fit", lambda)
		}
		if fits(Event{Kind: LNMax, Lambda: lambda * (1 + 1e-6), Count: queries}) {
			t.Fatalf("lambda %v is not the largest", lambda)
		}
	})
}

// The noise of sums is the smallest that the filter admits: as many releases fit, with any other events before them,
// and less noise does not. A vote moves two counts, so it costs twice as much as a sum.
func TestGaussianSigma(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{
			Epsilon: rapid.SampledFrom([]float64{0.1, 1, 3, 10}).Draw(t, "epsilon"), Delta: drawDelta.Draw(t, "delta"),
			Filter: rapid.SampledFrom([]Filter{"", FilterGDP, FilterRDP}).Draw(t, "filter"),
		}
		releases := rapid.Int64Range(1, 100000).Draw(t, "releases")
		var other []Event
		if rapid.Bool().Draw(t, "with class shares") {
			other = append(other, Event{Kind: Laplace, Epsilon: b.Epsilon / 20, Count: 1})
		}
		if rapid.Bool().Draw(t, "with votes") {
			other = append(other, Event{Kind: GNMax, Sigma: 1e4 / b.Epsilon, Count: 100})
		}
		sigma, err := GaussianSigma(b, releases, other)
		if errors.Is(err, ErrOverBudget) && b.Filter == FilterRDP && b.Epsilon < 1 {
			return // this filter needs some of a small epsilon for its delta
		}
		if err != nil {
			t.Fatal(err)
		}
		fits := func(sigma float64, count int64) bool {
			_, err := b.Admit(other, []Event{{Kind: Gaussian, Sigma: sigma, Sensitivity: 1, Count: count}})
			return err == nil
		}
		if !fits(sigma, releases) {
			t.Fatalf("%d releases do not fit with noise %v", releases, sigma)
		}
		if fits(sigma*0.99, releases) || fits(sigma*(1-1e-6), releases) {
			t.Fatalf("noise %v is not the least", sigma)
		}
		if fits(sigma, releases+1) {
			t.Fatalf("noise %v is enough for one release more than %d", sigma, releases)
		}
		votes, err := GNMaxSigma(b, releases, other)
		if err != nil {
			t.Fatal(err)
		}
		if votes > MinSigma && math.Abs(votes/math.Sqrt2/sigma-1) > 1e-7 {
			t.Fatalf("noise %v of sums, %v of votes", sigma, votes)
		}
	})
}

// A calibrated run that is charged round by round, with its class shares in the middle, can ask all of its queries.
func TestCalibratedRunUsesItsBudget(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5}
	share := Event{Kind: Laplace, Epsilon: 0.05, Count: 1}
	sigma, err := GNMaxSigma(b, 3200, []Event{share})
	testkit.Must(t, err)
	var spent []Event
	charge := func(e Event) {
		t.Helper()
		if _, err := b.Admit(spent, []Event{e}); err != nil {
			t.Fatal(err)
		}
		spent = Merge(append(spent, e))
	}
	for range 50 {
		charge(Event{Kind: GNMax, Sigma: sigma, Count: 32})
	}
	charge(share)
	for range 50 {
		charge(Event{Kind: GNMax, Sigma: sigma, Count: 32})
	}
	if _, err := b.Admit(spent, []Event{{Kind: GNMax, Sigma: sigma, Count: 1}}); !errors.Is(err, ErrOverBudget) {
		t.Errorf("one query more: error is %v", err)
	}
}

func TestCalibrationRefuses(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5}
	full := []Event{{Kind: GNMax, Sigma: 1, Count: 100}}
	for name, calibrate := range map[string]func(Budget, int64, []Event) (float64, error){
		"sigma": GNMaxSigma, "lambda": LNMaxLambda, "noise of sums": GaussianSigma,
	} {
		if got, err := calibrate(b, 10, full); !errors.Is(err, ErrOverBudget) {
			t.Errorf("%s with nothing left: %v, %v", name, got, err)
		}
		for _, queries := range []int64{0, -1} {
			if got, err := calibrate(b, queries, nil); err == nil {
				t.Errorf("%s for %d queries: %v", name, queries, got)
			}
		}
		if got, err := calibrate(Budget{}, 1, nil); err == nil {
			t.Errorf("%s without a budget: %v", name, got)
		}
		if got, err := calibrate(b, 1, []Event{{Kind: "?"}}); err == nil {
			t.Errorf("%s beside an unknown event: %v", name, got)
		}
	}
}

// Runs that each spend their whole budget share a dataset's exactly as far as the filter allows.
func TestRoom(t *testing.T) {
	dataset := Budget{Epsilon: 2, Delta: 1e-5}
	run := Budget{Epsilon: 1, Delta: 1e-5}
	sigma, err := GNMaxSigma(run, 1000, nil)
	testkit.Must(t, err)
	var spent []Event
	runs := 0
	for ; dataset.Room(spent, run) == nil; runs++ {
		spent = Merge(append(spent, Event{Kind: GNMax, Sigma: sigma, Count: 1000}))
		if _, err := dataset.Admit(nil, spent); err != nil {
			t.Fatalf("run %d was given room that there is not: %v", runs+1, err)
		}
	}
	if runs != 3 { // mu(2)/mu(1) is 1.89, its square 3.6
		t.Errorf("%d runs of epsilon 1 fit into epsilon 2, want 3", runs)
	}
	if err := dataset.Room(spent, run); !errors.Is(err, ErrOverBudget) {
		t.Errorf("error is %v", err)
	}
	if err := dataset.Room(nil, dataset); err != nil {
		t.Errorf("a run of all of the budget: %v", err)
	}
	if err := dataset.Room([]Event{{Kind: Laplace, Epsilon: 1, Count: 1}}, run); err != nil {
		t.Errorf("a second run of pure DP: %v", err)
	}
	if err := dataset.Room(nil, Budget{}); err == nil || errors.Is(err, ErrOverBudget) {
		t.Errorf("no budget: %v", err)
	}
}
