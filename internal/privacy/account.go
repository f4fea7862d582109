package privacy

import (
	"errors"
	"fmt"
	"math"
)

// The names of the accountants in a [Price].
const (
	AccountantRDP  = "rdp"
	AccountantGDP  = "gdp"
	AccountantPLD  = "pld"
	AccountantPure = "pure"
)

// Accountants returns the names of all accountants.
func Accountants() []string {
	return []string{AccountantPure, AccountantGDP, AccountantRDP, AccountantPLD}
}

// Price is the cost of a list of events, which are (Epsilon, Delta)-DP.
type Price struct {
	Delta   float64 `json:"delta"`
	Epsilon float64 `json:"epsilon"`
	// Accountant is the one that proved Epsilon.
	Accountant string `json:"accountant"`
	// ByAccountant has an epsilon for each accountant, nil if the accountant does not apply.
	ByAccountant map[string]*float64 `json:"by_accountant"`
}

// Account returns the smallest epsilon at delta that is proven for the events, with their parameters and counts
// taken as given. It does not depend on votes, so it holds for all datasets.
//
//   - "rdp": Rényi divergences on the grid of [Orders].
//   - "gdp": Gaussian DP. Events compose to mu = sqrt(sum mu_i²) (Dong, Roth, Su
//     2019, Corollary 3.3), exactly if all of them are Gaussian. Events of pure
//     DP count as the Gaussian DP they imply, or are added by basic
//     composition, whichever is smaller.
//   - "pure": the sum of epsilons, if all events have one. It holds at every
//     delta.
//   - "pld": privacy loss distributions on a grid, rounded up; see pld.go.
func Account(events []Event, delta float64) (Price, error) {
	events, err := accountable(events, delta)
	if err != nil {
		return Price{}, err
	}
	price := closedForms(events, delta)
	price.consider(AccountantPLD, pldEpsilon(events, delta))
	return price.proven()
}

// Running is [Account] without "pld": it uses only accountants with closed formulas. Ledger entries have its figure
// after each release, so that a pocket calculator can reproduce them. A [Price] of the whole list may be smaller,
// never larger.
func Running(events []Event, delta float64) (Price, error) {
	events, err := accountable(events, delta)
	if err != nil {
		return Price{}, err
	}
	return running(events, delta)
}

func accountable(events []Event, delta float64) ([]Event, error) {
	if err := CheckDelta(delta); err != nil {
		return nil, err
	}
	return validMerged(events)
}

// running is Running for validated, merged events.
func running(events []Event, delta float64) (Price, error) {
	return closedForms(events, delta).proven()
}

// closedForms asks all accountants except "pld".
func closedForms(events []Event, delta float64) Price {
	price := Price{Delta: delta, Epsilon: math.Inf(1), ByAccountant: make(map[string]*float64)}
	// On a tie the first is named, because pure DP is the strongest statement.
	price.consider(AccountantPure, pureEpsilon(events))
	price.consider(AccountantGDP, min(gdpEpsilon(totalMu(events), delta), gdpPlusPureEpsilon(events, delta)))
	price.consider(AccountantRDP, rdpEpsilon(events, delta))
	return price
}

func (c *Price) consider(accountant string, epsilon float64) {
	c.ByAccountant[accountant] = nil
	if !finite(epsilon) {
		return
	}
	c.ByAccountant[accountant] = &epsilon
	if epsilon < c.Epsilon {
		c.Epsilon, c.Accountant = epsilon, accountant
	}
}

func (c Price) proven() (Price, error) {
	if c.Accountant == "" {
		return Price{}, errors.New("no accountant finds a finite epsilon for these events; their noise is too small")
	}
	return c, nil
}

// CheckDelta refuses a delta outside (0, 1) with a [*FieldError].
func CheckDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return FieldErrorf("delta", "is %v; it must lie between 0 and 1, both excluded", delta)
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
		sum += m.pure(e.PerUnit())
	}
	return sum
}

// totalMu is the Gaussian DP parameter of all events together.
func totalMu(events []Event) float64 {
	sum := 0.0
	for _, e := range events {
		sum += e.muSquared()
	}
	return math.Sqrt(sum)
}

// gdpPlusPureEpsilon accounts for the Gaussian events exactly and adds the
// epsilons of the others (Dwork and Roth 2014, Theorem 3.16).
func gdpPlusPureEpsilon(events []Event, delta float64) float64 {
	var gaussian, other []Event
	for _, e := range events {
		if e.IsGaussian() {
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
