package privacy

import (
	"errors"
	"fmt"
	"math"
)

// The names of the accountants in a [Claim].
const (
	AccountantRDP  = "rdp"
	AccountantGDP  = "gdp"
	AccountantPure = "pure"
)

// Claim is what a list of events costs: (Epsilon, Delta)-DP.
type Claim struct {
	Delta   float64 `json:"delta"`
	Epsilon float64 `json:"epsilon"`
	// Accountant is the one that proved Epsilon.
	Accountant string `json:"accountant"`
	// ByAccountant has an epsilon for each accountant, nil where it does not
	// apply.
	ByAccountant map[string]*float64 `json:"by_accountant"`
}

// Account returns the smallest epsilon at delta that is proven for the events,
// their parameters and counts taken as given. No votes enter into it: the claim
// holds for all datasets.
//
//   - "rdp": Rényi divergences on the grid of [Orders].
//   - "gdp": Gaussian DP. Events compose to mu = sqrt(sum mu_i²) (Dong, Roth, Su
//     2019, Corollary 3.3), exactly where all of them are Gaussian. Events of pure
//     DP take part as the Gaussian DP they imply, or are added by basic
//     composition, whichever is smaller.
//   - "pure": the sum of epsilons, where all events have one. It holds at every
//     delta.
func Account(events []Event, delta float64) (Claim, error) {
	if err := checkDelta(delta); err != nil {
		return Claim{}, err
	}
	events, err := validMerged(events)
	if err != nil {
		return Claim{}, err
	}
	claim := Claim{Delta: delta, Epsilon: math.Inf(1), ByAccountant: make(map[string]*float64)}
	consider := func(accountant string, epsilon float64) {
		claim.ByAccountant[accountant] = nil
		if !finite(epsilon) {
			return
		}
		claim.ByAccountant[accountant] = &epsilon
		if epsilon < claim.Epsilon {
			claim.Epsilon, claim.Accountant = epsilon, accountant
		}
	}
	// Of equal ones the first is named: pure DP says most.
	consider(AccountantPure, pureEpsilon(events))
	consider(AccountantGDP, min(gdpEpsilon(totalMu(events), delta), gdpPlusPureEpsilon(events, delta)))
	consider(AccountantRDP, rdpEpsilon(events, delta))
	if claim.Accountant == "" {
		return Claim{}, errors.New("no accountant finds a finite epsilon for these events; their noise is too small")
	}
	return claim, nil
}

func checkDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return fieldErrorf("delta", "is %v; it must lie between 0 and 1, both excluded", delta)
	}
	return nil
}

func validMerged(events []Event) ([]Event, error) {
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	return Merge(events), nil
}

// pureEpsilon is the sum of epsilons (Dwork and Roth 2014, Corollary 3.15), or
// infinite when an event has none.
func pureEpsilon(events []Event) float64 {
	sum := 0.0
	for _, e := range events {
		m := mechanisms[e.Kind]
		if m.pure == nil {
			return math.Inf(1)
		}
		sum += m.pure(e)
	}
	return sum
}

// totalMu is the Gaussian DP parameter of all events together.
func totalMu(events []Event) float64 {
	sum := 0.0
	for _, e := range events {
		sum += mechanisms[e.Kind].muSquared(e)
	}
	return math.Sqrt(sum)
}

// gdpPlusPureEpsilon accounts for the Gaussian events exactly and adds the
// epsilons of the others (Dwork and Roth 2014, Theorem 3.16).
func gdpPlusPureEpsilon(events []Event, delta float64) float64 {
	var gaussian, other []Event
	for _, e := range events {
		if mechanisms[e.Kind].gaussian {
			gaussian = append(gaussian, e)
		} else {
			other = append(other, e)
		}
	}
	if len(gaussian) == 0 {
		return math.Inf(1) // that is the accountant "pure"
	}
	return gdpEpsilon(totalMu(gaussian), delta) + pureEpsilon(other)
}
