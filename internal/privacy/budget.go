package privacy

import (
	"errors"
	"fmt"
	"slices"
)

// Budget is the (Epsilon, Delta) that a run or a dataset may spend.
type Budget struct {
	// Epsilon is the bound on the privacy loss. Smaller protects better and teaches less. Required.
	Epsilon float64 `json:"epsilon" yaml:"epsilon"`
	// Delta is the probability that the bound may fail, far below one over the number of units. Required.
	Delta float64 `json:"delta" yaml:"delta"`
	// Filter is the rule by which releases add up (docs/privacy-accounting.md#adding-up). `gdp` is exact for Gaussian
	// noise and charges Poisson samples as if everybody took part. `rdp` charges samples as samples and Gaussian noise
	// a little more. `pld` is the tightest, for a dataset of one run whose plan says beforehand what it will
	// release. Default: `gdp`.
	Filter Filter `json:"filter,omitempty" yaml:"filter"`
	// Overlap is the number of sites at which one privacy unit may be, 2 or more; 0 if it is at one. See
	// [Budget.WithOverlap].
	Overlap int `json:"overlap,omitempty" yaml:"-"`
}

// NewBudget refuses an epsilon that is not a finite number above zero and a
// delta outside (0, 1), with a [*FieldError].
func NewBudget(epsilon, delta float64) (Budget, error) {
	b := Budget{Epsilon: epsilon, Delta: delta}
	return b, b.Validate()
}

// Validate is the check of [NewBudget] for a budget that was read.
func (b Budget) Validate() error {
	if !positive(b.Epsilon) {
		return FieldErrorf("epsilon", "is %v; a budget must be a finite number above 0", b.Epsilon)
	}
	if err := CheckDelta(b.Delta); err != nil {
		return err
	}
	if b.Overlap != 0 && !overlaps(float64(b.Overlap)) {
		return FieldErrorf("overlap", "is %d; %s", b.Overlap, overlapRule)
	}
	return b.Filter.validate()
}

// ErrOverBudget matches every refusal of [Budget.Admit] with errors.Is.
var ErrOverBudget = errors.New("over budget")

// OverBudgetError is a refusal: the requested events are neither released nor charged.
type OverBudgetError struct {
	Budget Budget
	// Spent and Needed are the filter's epsilon without and with the requested events.
	Spent, Needed float64
}

func (e *OverBudgetError) Error() string {
	return fmt.Sprintf("over budget: the question would raise epsilon from %.6g to %.6g at delta %g, and the budget "+
		"is epsilon %g; ask less, add noise or end the run",
		e.Spent, e.Needed, e.Budget.Delta, e.Budget.Epsilon)
}

func (e *OverBudgetError) Is(target error) bool { return target == ErrOverBudget }

// Room reports whether a run that spends its whole budget fits on top of spent, as Gaussian or as pure DP. A run that
// does not fit would stop half-way, partly paid and without a result. The error is that of [Budget.Admit].
func (b Budget) Room(spent []Event, run Budget) error {
	if err := run.Validate(); err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	_, err := b.Admit(spent, []Event{run.whole()})
	if errors.Is(err, ErrOverBudget) {
		if _, pure := b.Admit(spent, []Event{{Kind: Laplace, Epsilon: run.Epsilon, Count: 1}}); pure == nil {
			return nil
		}
	}
	return err
}

// Admit decides, before anything is asked, whether `next` may be charged on top of `spent`. It returns the running
// price of both together (see [Running]), or an [*OverBudgetError].
//
// Admit is a filter in the sense of Rogers, Roth, Ullman and Vadhan (2016): everything it admits, however each
// question depends on earlier answers, is together (Epsilon, Delta)-DP. [Filter] has the rules; [FilterPLD]
// guarantees this only for what a [Plan] fixed before; see [Spending] for runs.
func (b Budget) Admit(spent, next []Event) (Price, error) {
	if err := b.Validate(); err != nil {
		return Price{}, fmt.Errorf("budget: %w", err)
	}
	all, err := b.admit(spent, next)
	if err != nil {
		return Price{}, err
	}
	return running(all, b.Delta)
}

// Admits returns how often the next event, taken once, is admitted on top of spent; confident queries count as
// answered. More than 2^40 count as 2^40.
func (b Budget) Admits(spent []Event, next Event) (int64, error) {
	if err := b.Validate(); err != nil {
		return 0, fmt.Errorf("budget: %w", err)
	}
	var invalid error
	n := largestCount(func(n int64) bool {
		all, err := validMerged(append(slices.Clone(spent), next.Times(n)))
		if err != nil {
			invalid = err
		}
		return err == nil && b.fits(all)
	})
	return n, invalid
}

// admit is Admit without the price: it returns the merged events of both lists.
func (b Budget) admit(spent, next []Event) ([]Event, error) {
	all, err := validMerged(slices.Concat(spent, next))
	if err != nil {
		return nil, err
	}
	if !b.fits(all) {
		return nil, &OverBudgetError{
			Budget: b,
			Spent:  b.Filter.epsilon(Merge(spent), b.Delta),
			Needed: b.Filter.epsilon(all, b.Delta),
		}
	}
	return all, nil
}

func (b Budget) fits(events []Event) bool { return filterRules[b.Filter].fits(b, events) }
