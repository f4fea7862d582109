package privacy

import (
	"errors"
	"fmt"
	"slices"
)

// Budget is the (Epsilon, Delta) that a run or a dataset may spend.
type Budget struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
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
		return fieldErrorf("epsilon", "is %v; a budget must be a finite number above 0", b.Epsilon)
	}
	return checkDelta(b.Delta)
}

// ErrOverBudget is what errors.Is finds in every refusal of [Budget.Admit].
var ErrOverBudget = errors.New("over budget")

// OverBudgetError is a refusal: what was asked is not released and not charged.
type OverBudgetError struct {
	Budget Budget
	// Spent and Needed are the filter's epsilon without and with what was asked.
	Spent, Needed float64
}

func (e *OverBudgetError) Error() string {
	return fmt.Sprintf("over budget: what was asked would bring epsilon from %.6g to %.6g at delta %g, the budget is epsilon %g; ask less, add noise or end the run",
		e.Spent, e.Needed, e.Budget.Delta, e.Budget.Epsilon)
}

// Is makes errors.Is(err, ErrOverBudget) true.
func (e *OverBudgetError) Is(target error) bool { return target == ErrOverBudget }

// Room answers whether a run that spends all of its own budget fits on top of
// spent, as Gaussian or as pure DP: a run that does not would stop half-way,
// with a part paid for and nothing to show. The error is that of [Budget.Admit].
func (b Budget) Room(spent []Event, run Budget) error {
	if err := run.Validate(); err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	// A hair less than the whole, for the last digits of sums.
	mu := gdpMu(run.Epsilon, run.Delta) * (1 - 1e-9)
	_, err := b.Admit(spent, []Event{{Kind: Gaussian, Sigma: 1 / mu, Sensitivity: 1, Count: 1}})
	if errors.Is(err, ErrOverBudget) {
		if _, pure := b.Admit(spent, []Event{{Kind: Laplace, Epsilon: run.Epsilon, Count: 1}}); pure == nil {
			return nil
		}
	}
	return err
}

// Admit answers, before anything is asked, whether `next` may be charged on top
// of `spent`. It returns the claim of both together, or an [*OverBudgetError].
//
// Admit is a filter in the sense of Rogers, Roth, Ullman and Vadhan (2016):
// everything it lets through, however each question depends on the answers
// before it, is together (Epsilon, Delta)-DP. [FilterEpsilon] says by which
// rule.
func (b Budget) Admit(spent, next []Event) (Claim, error) {
	if err := b.Validate(); err != nil {
		return Claim{}, fmt.Errorf("budget: %w", err)
	}
	all, err := b.admit(spent, next)
	if err != nil {
		return Claim{}, err
	}
	return Account(all, b.Delta)
}

// admit is Admit without the claim: it returns the merged events of both lists.
func (b Budget) admit(spent, next []Event) ([]Event, error) {
	all, err := validMerged(slices.Concat(spent, next))
	if err != nil {
		return nil, err
	}
	if !b.fits(all) {
		return nil, &OverBudgetError{
			Budget: b,
			Spent:  filterEpsilon(Merge(spent), b.Delta),
			Needed: filterEpsilon(all, b.Delta),
		}
	}
	return all, nil
}

// fits is the filter's rule for validated events, decided in delta rather than
// in epsilon, which needs no search.
func (b Budget) fits(events []Event) bool {
	return pureEpsilon(events) <= b.Epsilon || gdpDelta(b.Epsilon, totalMu(events)) <= b.Delta
}

// FilterEpsilon is the smallest budget at delta that would have admitted the
// events in any order. It is never below the epsilon of [Account].
//
// The rule. Costs may depend on earlier answers (how many queries passed a
// threshold, what an analyst asks next), so a rule is needed that bounds what
// happens on every branch at once:
//
//   - Gaussian DP: let sum mu_i² never pass mu². The whole is mu-GDP (Smith and
//     Thakurta 2022; Koskela, Tobaben, Honkela 2023): each answer can
//     be computed from a stretch of length mu_i² of one Brownian motion with
//     drift, and together they use a stretch of at most mu². Events of pure DP
//     count with the Gaussian DP they imply, which is what makes one number
//     enough.
//   - Pure DP: let the sum of epsilons never pass epsilon (Rogers
//     et al. 2016). Only for lists with pure events alone.
//
// A list is admitted when one of the two admits it. That costs nothing extra:
// split the outputs into those that end within the pure rule and the others;
// for the first, P <= e^epsilon Q, for the others P <= e^epsilon Q + delta, and
// the sum is e^epsilon Q + delta.
//
// Rényi filters (Feldman and Zrnic 2021; Lécuyer 2021; Whitehouse et al. 2023)
// give nothing more for Gaussian releases: their cost is alpha mu²/2 at every
// order, so that each order's rule "the sum stays under a bound" is the rule on
// sum mu_i² with a smaller bound. For many Laplace releases they could admit
// more, but a third rule would have to share delta with the others.
func FilterEpsilon(events []Event, delta float64) (float64, error) {
	if err := checkDelta(delta); err != nil {
		return 0, err
	}
	events, err := validMerged(events)
	if err != nil {
		return 0, err
	}
	return filterEpsilon(events, delta), nil
}

func filterEpsilon(events []Event, delta float64) float64 {
	return min(pureEpsilon(events), gdpEpsilon(totalMu(events), delta))
}
