package sitepolicy

import (
	"sort"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Forecast is the predicted outcome of a round.
type Forecast struct {
	// Refusal is nil if the round would be answered, at least after an approval.
	Refusal *Refusal
	// Waits reports that an approval is needed.
	Waits bool
	// Fits is how many such rounds, one after the other, would be answered before the limit; at most the number asked
	// for.
	Fits int
	// FitsAtLeast is the same if each round is opened as often as a masked run may; without masks it equals Fits.
	FitsAtLeast int
}

// Forecast predicts the outcome of a number of equal rounds, as if earlier events had been charged, too. It leaves no
// trace.
func (e *Enforcer) Forecast(t Request, rounds int, earlier []privacy.Event) (f Forecast, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	refuse := func(r *Refusal) Forecast {
		r.Site = e.o.Site
		return Forecast{Refusal: r}
	}
	if err := t.validate(); err != nil {
		return refuse(&Refusal{Rule: RuleTerms, Public: "the terms are not valid", Private: err.Error()}), nil
	}
	if r := e.mine(t.Spec); r != nil {
		return refuse(r), nil
	}
	d, r := e.allowed()
	if r != nil {
		return refuse(r), nil
	}
	err = newSiteLedger(e.o.Ledger, true).use(func(b *book) ([]Entry, error) {
		if r := firstOf(e.fits(b, d), d.allows(t, e.o, e.people(b, d).now)); r != nil {
			f = refuse(r)
			return nil, nil
		}
		run := b.runs[runKey{t.Run, t.SpecSHA256}]
		if run == nil {
			run = &runBook{}
		}
		// The run's budget pays each round once, the site's limit each opening.
		ofRun := run.spending(t.Spec)
		ofRun.Spent = append(append([]privacy.Event{}, ofRun.Spent...), earlier...)
		within := func(rounds, reveals int) bool {
			spent := append(append([]privacy.Event{}, b.spent...), times(earlier, reveals)...)
			if _, err := d.Limit().Admit(spent, times(t.Charges, rounds*reveals)); err != nil {
				return false
			}
			_, err := ofRun.Admit(times(t.Charges, rounds))
			return err == nil
		}
		f = Forecast{
			Waits: d.Approval == ByHand,
			Fits:  mostThat(rounds, func(n int) bool { return within(n, 1) }),
		}
		f.FitsAtLeast = f.Fits
		if reveals := t.Spec.RevealsAtMost(); reveals > 1 {
			f.FitsAtLeast = mostThat(f.Fits, func(n int) bool { return within(n, reveals) })
		}
		if f.Fits == 0 && rounds > 0 {
			f = refuse(&Refusal{Rule: RuleEpsilon,
				Public: "the site's own limit on dataset " + d.Name + ", or the run's budget, would be passed"})
		}
		return nil, nil
	})
	return f, err
}

// mostThat is the largest number up to a bound that fits, if all smaller ones fit, too.
func mostThat(bound int, fits func(int) bool) int {
	low, high := 0, bound
	for low < high {
		middle := (low + high + 1) / 2
		if fits(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

func firstOf(refusals ...*Refusal) *Refusal {
	for _, r := range refusals {
		if r != nil {
			return r
		}
	}
	return nil
}

// times repeats the events n times.
func times(events []privacy.Event, n int) []privacy.Event {
	all := make([]privacy.Event, len(events))
	for i, e := range events {
		e.Count *= int64(n)
		e.Asked *= int64(n)
		e.Answered *= int64(n)
		all[i] = e
	}
	return all
}

// running is the price of events, 0 for none.
func running(events []privacy.Event, delta float64) (float64, error) {
	if len(events) == 0 {
		return 0, nil
	}
	claim, err := privacy.Running(events, delta)
	return claim.Epsilon, err
}

// countedBy is the price of events by the filter of a limit, 0 for none.
func countedBy(limit privacy.Budget, events []privacy.Event) (float64, error) {
	if limit.Delta == 0 {
		return 0, nil
	}
	return limit.Filter.Epsilon(events, limit.Delta)
}

// left is the largest epsilon of a run that fits on top of the spending, rounded down to a thousandth of the limit.
func left(limit privacy.Budget, spent []privacy.Event) float64 {
	const parts = 1000
	fits := func(part int) bool {
		run := privacy.Budget{Epsilon: limit.Epsilon * float64(part) / parts, Delta: limit.Delta, Filter: limit.Filter}
		return part == 0 || limit.Room(spent, run) == nil
	}
	most := sort.Search(parts, func(part int) bool { return !fits(part + 1) })
	return limit.Epsilon * float64(most) / parts
}
