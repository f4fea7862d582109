package meaning

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Telling is how often the best guess is right about which of two neighbouring datasets a release came from, if a
// fair coin chose the dataset. It is (1 + V)/2, with V the total variation distance of the two distributions of
// releases. No observer of the release does better, whatever else they know.
type Telling struct {
	Chance float64 `json:"chance"`
	// By names the proof: gdp, pld, pure, or budget if only an (epsilon, delta) is used.
	By string `json:"by"`
	// Exact is true only for Gaussian noise: the best guess is then right exactly that often.
	Exact bool `json:"exact"`
	// OfBudget follows from (epsilon, delta) alone, for any mechanism.
	OfBudget float64 `json:"of_budget"`
}

// ByBudget is the name of the proof that uses only an (epsilon, delta).
const ByBudget = "budget"

// Tell computes the chance for known releases, with their noise and number taken as given. Releases that compose
// to mu Gaussian DP have Phi(mu/2); for others it is computed from their privacy loss distribution. If the bound
// from their pure epsilon, or from the budget (epsilon, delta), is smaller, that is used.
func Tell(events []privacy.Event, epsilon, delta float64) (Telling, error) {
	t := Telling{Chance: Bound(epsilon, delta), By: ByBudget, OfBudget: Bound(epsilon, delta)}
	if len(events) == 0 {
		return Telling{Chance: 0.5, By: privacy.AccountantPure, Exact: true, OfBudget: t.OfBudget}, nil
	}
	price, err := privacy.Running(events, delta)
	if err != nil {
		return t, fmt.Errorf("chance of telling datasets apart: %w", err)
	}
	if pure := price.ByAccountant[privacy.AccountantPure]; pure != nil {
		t.consider(Bound(*pure, 0), privacy.AccountantPure)
	}
	distance, err := privacy.Distance(events)
	if err != nil {
		return t, fmt.Errorf("chance of telling datasets apart: %w", err)
	}
	by, gaussian := privacy.AccountantGDP, true
	for _, e := range events {
		if !e.IsGaussian() {
			by, gaussian = privacy.AccountantPLD, false
		}
	}
	t.consider((1+distance)/2, by)
	t.Exact = gaussian && t.By == by
	return t, nil
}

func (t *Telling) consider(chance float64, by string) {
	if chance < t.Chance {
		t.Chance, t.By = chance, by
	}
}

// Bound is the chance that an (epsilon, delta) leaves for every mechanism: (e^epsilon + delta)/(e^epsilon + 1). It
// follows from the trade-off of the two error rates in Kairouz, Oh, Viswanath (2015), Theorem 2.1.
func Bound(epsilon, delta float64) float64 {
	e := math.Exp(-epsilon)
	return (1 + delta*e) / (1 + e)
}

// Percent writes a chance; an uncertain chance never reads as certain.
func Percent(chance float64) string {
	if chance > 0.999 {
		return "> 99.9%"
	}
	return fmt.Sprintf("%.1f%%", 100*chance)
}

// Sentence describes the chance for a unit, such as "one record".
func (t Telling) Sentence(unit string) string {
	all := fmt.Sprintf("%s %s %s", Percent(t.Chance), t.Says(unit), t.Basis())
	if assumption := t.Assumption(); assumption != "" {
		all += " " + assumption
	}
	return all
}

// Says describes the chance as the rest of a sentence that begins with it.
func (Telling) Says(unit string) string {
	return fmt.Sprintf("is the highest chance of guessing right whether the data contains %s, for a person who sees "+
		"the release and knows everything else. A blind guess is right in 50%% of the cases.", unit)
}

// Basis says how the chance was computed, and which assumptions it makes.
func (t Telling) Basis() string {
	switch {
	case t.By == ByBudget:
		return "The figure follows from epsilon and delta alone, whatever is released."
	case t.Exact:
		return "The figure is exact for the Gaussian noise of all releases together."
	case t.By == privacy.AccountantPLD:
		return "The figure is an upper bound, from the privacy loss distribution of all releases together."
	default:
		return "The figure is an upper bound, from the sum of the epsilons of all releases."
	}
}

// Assumption is the assumption of a chance; empty if the chance follows from the budget.
func (t Telling) Assumption() string {
	if t.By == ByBudget {
		return ""
	}
	return fmt.Sprintf("It holds for the stated releases with the stated noise. From epsilon and delta alone, the "+
		"bound is %s.", Percent(t.OfBudget))
}

// At says where a unit may be, as a suffix to its name; empty if it is at one site.
func At(overlap int) string {
	if overlap < 2 {
		return ""
	}
	return fmt.Sprintf(" at up to %d sites", overlap)
}
