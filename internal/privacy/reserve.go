package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Reservation bounds the cost of a dataset's releases together with the runs that may still release something. It is
// for information and ordering; only [Spending.Admit] decides what is charged.
type Reservation struct {
	// A run with a filter other than pld counts as one release that takes all of its budget, as Gaussian or as
	// pure DP; see [Budget.Room].
	gaussian, pure []Event
	runs           int
}

// Reserve adds everything that runs may spend to the cost of a dataset's releases. spent holds the events of the whole
// dataset, including those of the runs. A run that has spent a part of its budget counts with its whole budget instead
// of that part.
func Reserve(spent []Event, runs []Spending) (Reservation, error) {
	r := Reservation{gaussian: slices.Clone(spent), runs: len(runs)}
	for _, p := range runs {
		r.gaussian = without(r.gaussian, p.Spent)
	}
	r.pure = slices.Clone(r.gaussian)
	for _, p := range runs {
		if err := p.Budget.Validate(); err != nil {
			return Reservation{}, fmt.Errorf("budget: %w", err)
		}
		if p.Budget.Filter == FilterPLD {
			whole := p.Plan.Events()
			r.gaussian, r.pure = append(r.gaussian, whole...), append(r.pure, whole...)
			continue
		}
		r.gaussian = append(r.gaussian, p.Budget.whole())
		r.pure = append(r.pure, Event{Kind: Laplace, Epsilon: p.Budget.Epsilon, Count: 1})
	}
	r.gaussian, r.pure = Merge(r.gaussian), Merge(r.pure)
	return r, nil
}

// whole is the Gaussian release that takes a whole budget, slightly reduced because of the last digits of sums.
func (b Budget) whole() Event {
	mu := math.Sqrt(filterRules[b.Filter].room(b, nil)) * (1 - 1e-9)
	return Event{Kind: Gaussian, Sigma: 1 / mu, Sensitivity: 1, Count: 1}
}

// without removes events from a list that contains them.
func without(all, part []Event) []Event {
	taken := map[Event]Event{}
	for _, e := range part {
		t := taken[e.parameters()]
		t.Count, t.Asked, t.Answered = t.Count+e.Count, t.Asked+e.Asked, t.Answered+e.Answered
		taken[e.parameters()] = t
	}
	var rest []Event
	for _, e := range Merge(all) {
		t := taken[e.parameters()]
		e.Count, e.Asked, e.Answered = max(0, e.Count-t.Count), max(0, e.Asked-t.Asked), max(0, e.Answered-t.Answered)
		if e.Count+e.Asked+e.Answered > 0 {
			rest = append(rest, e)
		}
	}
	return rest
}

// RoomBeside reports whether one more run, with its plan if it has one, could be opened on the dataset's budget b if
// everything reserved were spent. Errors are those of [CheckDatasetPlan] and [Budget.Room].
func (b Budget) RoomBeside(r Reservation, run Budget, plan Plan) error {
	var err error
	for _, taken := range [][]Event{r.gaussian, r.pure} {
		if _, err = CheckDatasetPlan(b, taken, r.runs, run.Filter, plan); err == nil && run.Filter != FilterPLD {
			err = b.Room(taken, run)
		}
		if err == nil || !errors.Is(err, ErrOverBudget) {
			return err
		}
	}
	return err
}

// AdmitBeside reports whether events could be charged on budget b if everything reserved were spent. The error is that
// of [Budget.Admit].
func (b Budget) AdmitBeside(r Reservation, next []Event) error {
	_, err := b.Admit(r.gaussian, next)
	if errors.Is(err, ErrOverBudget) {
		if _, pure := b.Admit(r.pure, next); pure == nil {
			return nil
		}
	}
	return err
}

// Taken is the epsilon of everything reserved, at the budget's delta and by its filter. It never exceeds the budget's
// own epsilon if the runs fit together.
func (b Budget) Taken(r Reservation) (float64, error) {
	epsilon, err := b.Filter.Epsilon(r.gaussian, b.Delta)
	if err != nil {
		return 0, err
	}
	if epsilon > b.Epsilon {
		if pure := pureEpsilon(r.pure); pure <= b.Epsilon {
			return pure, nil
		}
	}
	return epsilon, nil
}

// Left is the largest epsilon that one more run at delta could have beside everything reserved, to six digits and
// never too large; 0 below a ten-thousandth of the budget. Budgets do not add up linearly: it exceeds the
// difference of the epsilons. With filter pld it is all or nothing.
func (b Budget) Left(r Reservation, delta float64) (float64, error) {
	if err := (Budget{Epsilon: 1, Delta: delta}).Validate(); err != nil {
		return 0, err
	}
	if b.Filter == FilterPLD {
		if r.runs > 0 || len(r.gaussian) > 0 {
			return 0, nil
		}
		return b.Epsilon, nil
	}
	left := b.Epsilon - pureEpsilon(r.pure)
	if room := filterRules[b.Filter].room(b, r.gaussian); room > 0 {
		left = max(left, gdpEpsilon(math.Sqrt(room), delta))
	}
	if !(left > 1e-4*b.Epsilon) { // including the small reduction of [Budget.whole]
		return 0, nil
	}
	digits := math.Pow(10, 5-math.Floor(math.Log10(left)))
	return math.Floor(left*(1-1e-9)*digits) / digits, nil
}
