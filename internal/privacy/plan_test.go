package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/draws"
)

var (
	confident = Event{Kind: ConfidentGNMax, Threshold: 120.5, Sigma1: 300, Sigma2: 200, Asked: 32, Answered: 30}
	shares    = Event{Kind: Laplace, Epsilon: 0.05, Count: 1}
	labels    = Event{Kind: GNMax, Sigma: 150, Count: 32}
	byPLD     = Budget{Epsilon: 1, Delta: 1e-5, Filter: FilterPLD}
)

func sampled(rate, sigma float64, count int64) Event {
	return Event{Kind: SubsampledGaussian, Rate: rate, NoiseMultiplier: sigma, Count: count}
}

// planFor fills the budget with the class shares and samples.
func planFor(t testing.TB, b Budget, releases int64) Plan {
	t.Helper()
	sigma, err := SampledSigma(b, 0.02, releases, []Event{shares})
	testkit.Must(t, err)
	return planned(shares, sampled(0.02, sigma, releases))
}

// planned is a plan of events with their counts.
func planned(events ...Event) (plan Plan) {
	for _, e := range events {
		plan = append(plan, Planned{Kind: "some", Mechanism: e.parameters(), Count: e.Count + e.Asked})
	}
	return plan
}

func TestPlanValidate(t *testing.T) {
	with := func(change func(p *Planned)) Plan {
		plan := planned(shares, labels)
		change(&plan[1])
		return plan
	}
	for _, c := range []struct {
		message string
		plan    Plan
	}{
		{"0 entries", nil},
		{"257 entries", make(Plan, 257)},
		{`kind is ""`, with(func(p *Planned) { p.Kind = "" })},
		{`kind is "Votes"`, with(func(p *Planned) { p.Kind = "Votes" })},
		{"stage is", with(func(p *Planned) { p.Stage = "a stage" })},
		{"count is -1", with(func(p *Planned) { p.Count = -1 })},
		{"count is 65536000001", with(func(p *Planned) { p.Count = 65_536_000_001 })},
		{"counts of its own", with(func(p *Planned) { p.Mechanism.Count = 1 })},
		{"counts of its own", with(func(p *Planned) { p.Mechanism.Answered = 1 })},
		{"is unknown", with(func(p *Planned) { p.Mechanism.Kind = "magic" })},
		{`variant "histogram" does not belong to laplace`, with(func(p *Planned) {
			p.Mechanism, p.Variant = shares.parameters(), Histogram
		})},
		{`variant "norm-gamma" does not belong to gnmax`, with(func(p *Planned) { p.Variant = NormGamma })},
		{"noise_multiplier is 0", planned(sampled(0.1, 0, 5))},
		{"noise_multiplier is NaN", planned(sampled(0.1, math.NaN(), 5))},
	} {
		if err := c.plan.Validate(); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%v: %v, want %q", c.plan, err, c.message)
		}
		if _, err := c.plan.Check(Budget{Epsilon: 1e9, Delta: 0.1}); err == nil {
			t.Errorf("%v was checked", c.plan)
		}
	}
	all := planned(labels, shares, sampled(0.1, 1, 1), Event{Kind: Gaussian, Sigma: 1, Sensitivity: 1, Count: 1},
		Event{Kind: Exponential, Epsilon: 1, Count: 1}, Event{Kind: LNMax, Lambda: 1, Count: 1}, labels)
	if err := all.Validate(); err != nil || !all.Fixed() {
		t.Error(err)
	}
	// A plan whose cost is not known in advance cannot be priced; it is for other filters.
	for _, open := range []Plan{planned(shares, confident), with(func(p *Planned) { p.Count = 0 })} {
		if err := open.Validate(); err != nil || open.Fixed() {
			t.Errorf("%v: %v", open, err)
		}
		if _, err := open.Check(Budget{Epsilon: 1e9, Delta: 0.1}); !errors.Is(err, ErrPlan) {
			t.Errorf("%v was priced: %v", open, err)
		}
	}
}

// Entries of the same mechanism cost what they cost together.
func TestPlanEvents(t *testing.T) {
	want := Merge([]Event{labels, shares, labels})
	if got := planned(labels, shares, labels).Events(); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	if got := (Plan{{Kind: "some", Mechanism: labels.parameters()}}).Events(); len(got) != 0 {
		t.Errorf("an open count costs %v", got)
	}
	for answered := range int64(32) { // the worst is no less
		less := mustRunning(t, planned(confident)[0].Cost(32, answered), 1e-5)
		if worst := mustRunning(t, planned(confident)[0].Worst(32), 1e-5); less > worst {
			t.Errorf("with %d answers epsilon %v, at worst %v", answered, less, worst)
		}
	}
	for _, c := range []struct {
		p              Planned
		uses, answered int64
		want           []Event
	}{
		{planned(labels)[0], 0, 0, nil},
		{planned(labels)[0], 7, 7, []Event{labels.Times(7)}},
		{planned(confident)[0], 32, 30, []Event{confident}},
		{planned(confident)[0], 32, 0,
			[]Event{{Kind: ConfidentGNMax, Threshold: 120.5, Sigma1: 300, Sigma2: 200, Asked: 32}}},
	} {
		if got := c.p.Cost(c.uses, c.answered); !slices.Equal(got, c.want) {
			t.Errorf("%v, %d uses: %v, want %v", c.p, c.uses, got, c.want)
		}
	}
}

func TestPlanCheck(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5, Filter: FilterPLD}
	plan := planFor(t, b, 50)
	price, err := plan.Check(b)
	if err != nil || price.Accountant != AccountantPLD || !(price.Epsilon <= 1 && price.Epsilon > 1-5e-6) {
		t.Errorf("price %+v, %v", price, err)
	}
	plan[1].Count++
	var over *OverBudgetError
	if _, err := plan.Check(b); !errors.As(err, &over) || over.Budget != b || !(over.Needed > 1) {
		t.Errorf("one more release: %v", err)
	}
	if _, err := plan.Check(Budget{Epsilon: 1, Delta: 2}); err == nil {
		t.Error("delta 2 was accepted")
	}
}

func TestPlanAdmit(t *testing.T) {
	plan := append(planned(shares, sampled(0.02, 2, 10)), Planned{Kind: "votes", Mechanism: confident.parameters()})
	for _, c := range []struct {
		used []int64
		next Use
		want Event
	}{
		{nil, Use{0, 1, 1}, shares},
		{[]int64{1}, Use{1, 10, 10}, sampled(0.02, 2, 10)},
		{[]int64{0, 4, 0}, Use{1, 6, 6}, sampled(0.02, 2, 6)},
		{[]int64{1, 10, 1 << 40}, Use{2, 32, 30}, confident},
	} {
		if got, err := plan.Admit(c.used, c.next); err != nil || !slices.Equal(got, []Event{c.want}) {
			t.Errorf("%v after %v: %v, %v", c.next, c.used, got, err)
		}
	}
	for _, c := range []struct {
		message string
		used    []int64
		next    Use
	}{
		{"has 1 of", []int64{1, 0, 0}, Use{0, 1, 1}},
		{"has 1 of", nil, Use{0, 2, 2}},
		{"has 10 of", nil, Use{1, 11, 11}},
		{"8 of them are used, and 3", []int64{0, 8, 0}, Use{1, 3, 3}},
		{"is used up", []int64{0, math.MaxInt64, 0}, Use{1, 1, 1}},
		{"is used up", []int64{0, 5, 0}, Use{1, math.MaxInt64, 0}},
		{"no such entry", nil, Use{3, 1, 1}},
		{"no such entry", nil, Use{-1, 1, 1}},
	} {
		_, err := plan.Admit(c.used, c.next)
		var outside *PlanError
		if !errors.Is(err, ErrOverBudget) || !errors.As(err, &outside) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%v after %v: %v, want %q", c.next, c.used, err, c.message)
		}
	}
	// A negative count would give back earlier uses.
	for _, next := range []Use{{1, -5, -5}, {1, 0, 0}, {1, 5, 6}, {1, 5, 4}, {2, 5, -1}} {
		if _, err := plan.Admit(nil, next); err == nil || errors.Is(err, ErrOverBudget) {
			t.Errorf("%v: %v", next, err)
		}
	}
}

// Whatever the plan covers, in any order and stopped anywhere, costs no more than the plan.
func TestWhatIsCoveredIsWithinTheClaim(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	draws.Costly(t, func(t *rapid.T) {
		plan := planned(
			Event{Kind: Laplace, Epsilon: rapid.Float64Range(0.01, 0.5).Draw(t, "laplace"), Count: 2},
			sampled(rapid.Float64Range(0.01, 0.5).Draw(t, "rate"), rapid.Float64Range(1, 6).Draw(t, "sigma"),
				rapid.Int64Range(1, 60).Draw(t, "count")),
			Event{Kind: GNMax, Sigma: rapid.Float64Range(20, 90).Draw(t, "gnmax"), Count: 5},
		)
		budget := Budget{Epsilon: 1e6, Delta: 1e-5, Filter: FilterPLD}
		price, err := plan.Check(budget)
		if err != nil {
			t.Fatal(err)
		}
		p := Spending{Budget: budget, Plan: plan, PlanEpsilon: price.Epsilon}
		for range rapid.IntRange(1, 8).Draw(t, "questions") {
			which := rapid.IntRange(0, 2).Draw(t, "which")
			times := rapid.Int64Range(1, plan[which].Count+1).Draw(t, "times")
			after, _, err := p.Use(Use{which, times, times})
			if errors.Is(err, ErrOverBudget) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			p = after
		}
		spent, err := p.EpsilonSpent()
		if err != nil || spent > price.Epsilon {
			t.Fatalf("epsilon spent %v, %v; the price of the plan is %v", spent, err, price.Epsilon)
		}
		part, err := Account(p.Spent, budget.Delta)
		// The two grids differ by less than the error of each.
		if err != nil || part.Epsilon > price.Epsilon*1.003 {
			t.Fatalf("a part costs %v, %v; the plan %v", part.Epsilon, err, price.Epsilon)
		}
		for _, e := range p.Spent {
			if !slices.ContainsFunc(plan, func(x Planned) bool {
				return x.Mechanism == e.parameters() && e.Count <= x.Count
			}) {
				t.Fatalf("%v is not within the plan", e)
			}
		}
	})
}

func TestSpending(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5, Filter: FilterPLD}
	for _, b := range []Budget{b, {Epsilon: 1, Delta: 1e-5}} {
		if _, _, err := (Spending{Budget: b}).Use(Use{0, 1, 1}); !errors.Is(err, ErrOverBudget) {
			t.Errorf("%v was spent without a plan: %v", b, err)
		}
	}
	if _, err := (Spending{Budget: b}).Admit([]Event{shares}); !errors.Is(err, ErrOverBudget) {
		t.Errorf("a budget by pld was spent without a plan: %v", err)
	}
	if _, _, err := (Spending{Plan: planned(shares)}).Use(Use{0, 1, 1}); err == nil {
		t.Error("no budget at all was spent")
	}
	plan := planFor(t, b, 50)
	price, err := plan.Check(b)
	testkit.Must(t, err)
	p := Spending{Budget: b, Plan: plan, PlanEpsilon: price.Epsilon}
	first, cost, err := p.Use(Use{0, 1, 1})
	if err != nil || !slices.Equal(cost, []Event{shares}) || !slices.Equal(first.Used, []int64{1, 0}) || p.Used != nil {
		t.Fatal(first.Used, cost, err)
	}
	if spent, err := first.EpsilonSpent(); err != nil || spent != mustRunning(t, []Event{shares}, b.Delta) ||
		len(p.Spent) != 0 {
		t.Errorf("after the class shares: %v, %v; before: %v", spent, err, p.Spent)
	}
	last, _, err := first.Use(Use{1, 50, 50})
	testkit.Must(t, err)
	// Formulas would exceed the budget at the end of the plan.
	if spent, err := last.EpsilonSpent(); err != nil || spent != price.Epsilon {
		t.Errorf("at the end: %v, %v; want %v", spent, err, price.Epsilon)
	}
	if _, _, err := last.Use(Use{1, 1, 1}); !errors.Is(err, ErrOverBudget) {
		t.Errorf("past the end: %v", err)
	}
	// A count bounds the uses of a run with another filter, too; and its budget does.
	gdp := Spending{Budget: Budget{Epsilon: 1, Delta: 1e-5},
		Plan: append(planned(shares), Planned{Kind: "votes", Mechanism: labels.parameters()})}
	after, _, err := gdp.Use(Use{0, 1, 1})
	testkit.Must(t, err)
	if _, _, err := after.Use(Use{0, 1, 1}); !errors.Is(err, ErrOverBudget) ||
		!strings.Contains(err.Error(), "used up") {
		t.Errorf("a second use of one: %v", err)
	}
	var over *OverBudgetError
	if _, _, err := after.Use(Use{1, 1 << 20, 1 << 20}); !errors.As(err, &over) {
		t.Errorf("a million votes: %v", err)
	}
}

func TestCheckDatasetPlan(t *testing.T) {
	byPLD := Budget{Epsilon: 1, Delta: 1e-5, Filter: FilterPLD}
	plan := planFor(t, byPLD, 400)
	byGDP, byRDP := Budget{Epsilon: 1, Delta: 1e-5}, Budget{Epsilon: 1.2, Delta: 1e-5, Filter: FilterRDP}
	if price, err := CheckDatasetPlan(byPLD, nil, 0, FilterPLD, plan); err != nil || price == nil || price.Epsilon > 1 {
		t.Errorf("the only run: %v, %v", price, err)
	}
	if price, err := CheckDatasetPlan(byRDP, nil, 3, FilterPLD, plan); err != nil || price != nil {
		t.Errorf("a dataset with room by rdp: %v, %v", price, err)
	}
	if _, err := CheckDatasetPlan(byGDP, nil, 3, "", plan); err != nil {
		t.Errorf("no plan by gdp: %v", err)
	}
	less := byPLD
	less.Epsilon = 0.99
	for _, c := range []struct {
		name, message string
		err           error
		b             Budget
		spent         []Event
		runs          int
		filter        Filter
	}{
		{"a second run", "can have only one run", ErrPlan, byPLD, nil, 1, FilterPLD},
		{"no plan", "needs a run with filter pld", ErrPlan, byPLD, nil, 0, FilterGDP},
		{"over the dataset's budget", "over budget", ErrOverBudget, less, nil, 0, FilterPLD},
		{"as if unsampled", "filter, gdp (rdp suits samples, pld", ErrOverBudget, byGDP, nil, 0, FilterPLD},
		{"on top of the spending", "filter, rdp", ErrOverBudget, byRDP, []Event{{Kind: GNMax, Sigma: 8, Count: 1}},
			1, FilterPLD},
	} {
		if price, err := CheckDatasetPlan(c.b, c.spent, c.runs, c.filter, plan); !errors.Is(err, c.err) ||
			price != nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, %v", c.name, price, err)
		}
	}
}

// The filter is the price of the whole list.
func TestPLDFilter(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	b := Budget{Epsilon: 1, Delta: 1e-5, Filter: FilterPLD}
	plan := planFor(t, b, 50).Events()
	if _, err := b.Admit(plan[:1], plan[1:]); err != nil {
		t.Errorf("a calibrated list: %v", err)
	}
	if n, err := b.Admits(plan[:1], plan[1]); err != nil || n != 50 {
		t.Errorf("%d releases are admitted, %v; want 50", n, err)
	}
	var over *OverBudgetError
	if _, err := b.Admit(plan, plan[1:]); !errors.As(err, &over) {
		t.Errorf("twice: %v", err)
	} else {
		price := mustAccount(t, Merge(append(plan[:2:2], plan[1])), b.Delta)
		closeTo(t, "needed", over.Needed, price.Epsilon, 1e-12)
	}
	if epsilon, err := FilterPLD.Epsilon(plan, b.Delta); err != nil ||
		epsilon != mustAccount(t, plan, b.Delta).Epsilon {
		t.Errorf("the filter's epsilon: %v, %v", epsilon, err)
	}
	if err := b.Room(plan[:1], Budget{Epsilon: 0.9, Delta: 1e-5}); err != nil {
		t.Errorf("room for 0.9 beside %v: %v", shares, err)
	}
	if err := b.Room(plan[:1], Budget{Epsilon: 1, Delta: 1e-5}); !errors.Is(err, ErrOverBudget) {
		t.Errorf("room for all beside %v: %v", shares, err)
	}
}

func TestPLDCalibration(t *testing.T) {
	b := Budget{Epsilon: 1, Delta: 1e-5, Filter: FilterPLD}
	other := []Event{shares}
	gnmax, err := GNMaxSigma(b, 1000, other)
	testkit.Must(t, err)
	gauss, err := GaussianSigma(b, 1000, other)
	testkit.Must(t, err)
	lambda, err := LNMaxLambda(b, 100, other)
	testkit.Must(t, err)
	for _, e := range []Event{{Kind: GNMax, Sigma: gnmax, Count: 1000},
		{Kind: Gaussian, Sigma: gauss, Sensitivity: 1, Count: 1000}, {Kind: LNMax, Lambda: lambda, Count: 100}} {
		price := mustAccount(t, append(other[:1:1], e), b.Delta)
		if price.Epsilon > 1 || price.Epsilon < 1-1e-4 {
			t.Errorf("%v costs %v", e, price.Epsilon)
		}
	}
}

func TestSampledSigma(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, c := range []struct {
		b        Budget
		rate     float64
		releases int64
	}{
		{Budget{Epsilon: 1, Delta: 1e-5}, 0.02, 300},
		{Budget{Epsilon: 10, Delta: 1e-5, Filter: FilterRDP}, 0.005, 100},
		{Budget{Epsilon: 0.2, Delta: 1e-6, Filter: FilterPLD}, 0.1, 10},
	} {
		sigma, err := SampledSigma(c.b, c.rate, c.releases, []Event{shares})
		testkit.Must(t, err)
		t.Logf("rate %v, %d releases, epsilon %v: %v", c.rate, c.releases, c.b.Epsilon, sigma)
		at := mustAccount(t, []Event{shares, sampled(c.rate, sigma, c.releases)}, c.b.Delta)
		below := mustAccount(t, []Event{shares, sampled(c.rate, sigma*(1-3e-6), c.releases)}, c.b.Delta)
		if at.Epsilon > c.b.Epsilon || below.Epsilon <= c.b.Epsilon {
			t.Errorf("rate %v: epsilon %v at %v, %v a little below", c.rate, at.Epsilon, sigma, below.Epsilon)
		}
	}
	// Every unit is in the sample: the exact answer for Gaussian noise.
	b := Budget{Epsilon: 1, Delta: 1e-5}
	sigma, err := SampledSigma(b, 1, 50, nil)
	testkit.Must(t, err)
	exact, err := GaussianSigma(b, 50, nil)
	testkit.Must(t, err)
	closeTo(t, "sigma at rate 1", sigma, exact, 1e-7)
	if _, err := SampledSigma(b, 0.1, 5, []Event{{Kind: Laplace, Epsilon: 1.5, Count: 1}}); !errors.Is(err,
		ErrOverBudget) {
		t.Errorf("no room: %v", err)
	}
	for _, bad := range []func() (float64, error){
		func() (float64, error) { return SampledSigma(b, 0, 5, nil) },
		func() (float64, error) { return SampledSigma(b, 1.1, 5, nil) },
		func() (float64, error) { return SampledSigma(b, 0.1, 0, nil) },
		func() (float64, error) { return SampledSigma(Budget{}, 0.1, 5, nil) },
		func() (float64, error) { return SampledSigma(b, 0.1, 5, []Event{{Kind: GNMax}}) },
	} {
		if sigma, err := bad(); err == nil {
			t.Errorf("%v for nonsense", sigma)
		}
	}
}

func mustRunning(t testing.TB, events []Event, delta float64) float64 {
	t.Helper()
	price, err := Running(events, delta)
	testkit.Must(t, err)
	return price.Epsilon
}

// The joint account of a plan of unlike events is above that of each, below their sum, and
// does not depend on their order.
func TestPlansOfUnlikeEventsCompose(t *testing.T) {
	plan := []Event{sampled(0.02, 2, 300), sampled(0.1, 6, 200), {Kind: Exponential, Epsilon: 0.02, Count: 400},
		{Kind: Laplace, Epsilon: 0.1, Count: 1}}
	const delta = 1e-5
	price := func(events ...Event) float64 {
		t.Helper()
		c, err := (Budget{Epsilon: 100, Delta: delta, Filter: FilterPLD}).Admit(nil, events)
		testkit.Must(t, err)
		return c.Epsilon
	}
	all, sum := price(plan...), 0.0
	for i, event := range plan {
		alone := price(event)
		sum += alone
		if alone >= all {
			t.Errorf("%s alone costs %v, all together %v", fmt.Sprint(event.Kind), alone, all)
		}
		without := append(append([]Event(nil), plan[:i]...), plan[i+1:]...)
		if less := price(without...); less >= all {
			t.Errorf("without %v it costs %v, with it %v", event.Kind, less, all)
		}
	}
	if all >= sum {
		t.Errorf("together %v, one by one %v", all, sum)
	}
	if turned := price(plan[3], plan[2], plan[1], plan[0]); math.Abs(turned-all) > 1e-3*all {
		t.Errorf("in another order %v, want %v", turned, all)
	}
}

func BenchmarkRunningOfSamples(b *testing.B) {
	p := Spending{Budget: byPLD, Spent: []Event{shares, sampled(0.02, 5.3, 1)}}
	for b.Loop() {
		p.Spent[1].Count++
		if _, err := p.EpsilonSpent(); err != nil {
			b.Fatal(err)
		}
	}
}

// A plan of many mechanisms is not priced as a whole if each takes time.
func TestAPlanOfManyMechanismsHasNoPrice(t *testing.T) {
	b := Budget{Epsilon: 5, Delta: 1e-5, Filter: FilterPLD}
	for n, priced := range map[int]bool{mostMechanisms: true, mostMechanisms + 1: false} {
		var plan Plan
		for i := range 3 * n { // three entries for each of them
			plan = append(plan, Planned{Kind: "sum", Count: 1,
				Mechanism: Event{Kind: Gaussian, Sigma: float64(50 + i%n), Sensitivity: 1}})
		}
		if _, err := plan.Check(b); (err == nil) != priced || !priced && !errors.Is(err, ErrPlan) {
			t.Errorf("a plan of %d mechanisms: %v", n, err)
		}
	}
}
