package meaning

import "fmt"

// The public thresholds of [Guarantee.Strength].
//
// Those of epsilon are the tiers of Ponomareva et al. 2023, "How to DP-fy ML", section 5.2: strong formal
// guarantees up to 1, reasonable ones up to 10, weak to none above. NIST SP 800-226 (2025) sets no such threshold.
//
// These tiers do not cover delta, which matters as well: a mechanism that publishes each record with probability
// delta is (0, delta)-DP. So delta must be below one over the number of records, if that is public. It must be at
// most 1e-5 for strong, a usual choice for tables of tens of thousands, and at most 1e-3 for reasonable, which
// gives away one record on average even in a table of a thousand.
const (
	StrongEpsilon     = 1
	ReasonableEpsilon = 10
	StrongDelta       = 1e-5
	ReasonableDelta   = 1e-3
)

// UsualDelta is a delta for a public number of privacy units, above 0: the smaller of 1e-5 and a tenth of one over
// the number. Any (epsilon, delta) allows a mechanism that publishes each unit with probability delta; with this
// delta it publishes at most a tenth of a unit on average.
//
// Dwork and Roth 2014 (The Algorithmic Foundations of Differential Privacy, section 2.3) require delta far below
// one over the number. 1/n^1.1 is also common: it is half of one over the number for a thousand units, and a
// quarter for a million.
func UsualDelta(records int) float64 { return min(StrongDelta, 0.1/float64(records)) }

// Source names where the tiers of epsilon come from.
const Source = "tiers of Ponomareva et al. 2023, How to DP-fy ML; the limits of delta are Conclave's own"

// The words for the strength.
const (
	Strong     = "strong"
	Reasonable = "reasonable"
	Weak       = "weak"
)

// Guarantee is an (epsilon, delta), with public facts about the units that it protects.
type Guarantee struct {
	Epsilon, Delta float64
	// Records is the public number of privacy units, 0 if it is not known.
	Records int
}

// Strength is the word that suits both epsilon and delta.
func (g Guarantee) Strength() string {
	switch {
	case g.Epsilon > ReasonableEpsilon || g.Delta > ReasonableDelta || g.aboveOne():
		return Weak
	case g.Epsilon > StrongEpsilon || g.Delta > StrongDelta:
		return Reasonable
	default:
		return Strong
	}
}

// Why says which figure decides the word.
func (g Guarantee) Why() string {
	switch {
	case g.Epsilon > ReasonableEpsilon:
		return fmt.Sprintf("epsilon is above %d", ReasonableEpsilon)
	case g.aboveOne():
		return "delta is above 1 over the number of records"
	case g.Delta > ReasonableDelta:
		return fmt.Sprintf("delta is above %g", ReasonableDelta)
	case g.Epsilon > StrongEpsilon:
		return fmt.Sprintf("epsilon is above %d and at most %d", StrongEpsilon, ReasonableEpsilon)
	case g.Delta > StrongDelta:
		return fmt.Sprintf("delta is above %g", StrongDelta)
	default:
		return fmt.Sprintf("epsilon is at most %d and delta at most %g", StrongEpsilon, StrongDelta)
	}
}

// aboveOne reports whether delta allows a mechanism that publishes more than one record on average.
func (g Guarantee) aboveOne() bool { return g.Records > 0 && g.Delta > 1/float64(g.Records) }

// Warnings are sentences about unusual properties, for the start of a run, its report and its certificate.
func (g Guarantee) Warnings() (all []string) {
	if g.Epsilon > ReasonableEpsilon {
		all = append(all, fmt.Sprintf("Epsilon is %g, above %d: this is weak to no formal protection (%s).", g.Epsilon,
			ReasonableEpsilon, Source))
	}
	switch {
	case g.aboveOne():
		all = append(all, fmt.Sprintf("Delta is %g, above 1/%d, one over the public number of records: releasing "+
			"whole records at random would satisfy this guarantee.", g.Delta, g.Records))
	case g.Records == 0 && g.Delta > StrongDelta:
		all = append(all, fmt.Sprintf("Delta is %g, and there is no public number of records to compare it with; "+
			"delta should be well below one over that number.", g.Delta))
	}
	return all
}
