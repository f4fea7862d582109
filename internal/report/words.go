package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

type words struct {
	One          string // what is protected: "one record", "one patient_id"
	Whom         string
	Meaning      string
	Guess        string  // the attacker's best chance, as a percentage
	GuessAt      float64 // where that lies between guessing, 0, and certainty, guessWidth
	Strength     string
	Remainder    string // delta as odds
	Neighbours   string
	Source       string
	Coin         bool
	Baseline     string // what took the place of the answers, of a baseline
	Dependent    bool
	SharePercent string // of the budget that was spent
	Spent        string // what that is
	Masked       string // among whom the sums were masked, and for whom the figures are; empty without masks
}

// explain puts the guarantee into words. The figures are those of the budget,
// not of what was spent: where the number of answers depends on the votes, it
// is the budget that is guaranteed and the spending that stays below it.
func explain(c certificate.Certificate) words {
	w := words{
		One: "one record",
		Whom: "Every record in the training data is protected for itself. Somebody who has several records " +
			"there is protected less: the protection weakens with each further record.",
		Coin:         c.Votes == certificate.VotesCoin,
		Dependent:    c.Guarantee == certificate.DataDependent,
		SharePercent: text.Percent(c.EpsilonSpent / c.Epsilon),
		Spent:        strings.ToUpper(certificate.SpentNote[:1]) + certificate.SpentNote[1:],
	}
	w.Masked = maskedWords(c.Masked)
	if c.Unit != partition.UnitRecord {
		w.One = fmt.Sprintf("all records of one %s", c.Unit)
		w.Whom = fmt.Sprintf("All records that share one value of %q are protected together, as one unit.", c.Unit)
	}
	if len(c.Earlier) > 0 {
		w.Whom += fmt.Sprintf(
			" The figures speak of %s too, from which this run went on: epsilon is the budget that all runs on "+
				"these records share, and what was spent is that of these.", strings.Join(c.Earlier, ", "))
	}
	change := "left out or added"
	if strings.Contains(c.Neighbouring, "replace") {
		change = "replaced by something else"
		if strings.Contains(c.Neighbouring, "add") {
			change = "left out, added or replaced"
		}
	}
	w.Meaning = fmt.Sprintf(
		"If %s had been %s, then everything that can be seen in the released files or computed from them would have "+
			"been at most %s times as likely, or as unlikely, as it is now. Only a remainder of probability %s "+
			"(%s), at most, is exempt.",
		w.One, change, factor(c.Epsilon), text.Figure(c.Delta), odds(c.Delta))
	chance := bestChance(c.Epsilon, c.Delta)
	w.Guess, w.GuessAt = guess(chance), guessWidth*(2*chance-1)
	w.Remainder = odds(c.Delta)
	w.Neighbours = strings.ReplaceAll(c.Neighbouring, "-", " ")
	p, _ := pipelines.Named(c.Pipeline)
	what, instead := p.Words.Answers, p.Words.Baseline
	w.Source = "from the " + what + " of"
	if w.Coin {
		w.Source = "from " + instead + " in place of the " + what + " of"
		w.Baseline = strings.ToUpper(instead[:1]) + instead[1:] + " took the place of the teachers' " + what + "."
	}
	switch {
	case c.Epsilon <= 1:
		w.Strength = "strong"
	case c.Epsilon <= 3:
		w.Strength = "good"
	case c.Epsilon <= 10:
		w.Strength = "moderate"
	default:
		w.Strength = "weak"
	}
	return w
}

// maskedWords says among whom a run was masked; empty without masks.
func maskedWords(m *certificate.Masked) string {
	if m == nil {
		return ""
	}
	said := m.String()
	return strings.ToUpper(said[:1]) + said[1:] + ". " + certificate.MaskedNote
}

func purpose(kind privacy.Kind) string {
	switch kind {
	case privacy.GNMax, privacy.LNMax:
		return "the teachers' votes, with noise"
	case privacy.ConfidentGNMax:
		return "the teachers' votes with noise, answered only where enough teachers agree"
	case privacy.Laplace:
		return "counts, or the coefficients that rows are weighted by, with noise"
	case privacy.Gaussian:
		return "sums, or the coefficients that rows are weighted by, with noise"
	case privacy.SubsampledGaussian:
		return "sums over random samples of the units, with noise"
	case privacy.Exponential:
		return "one of several discriminators, selected at random: those that tell synthetic from real rows better " +
			"are more likely"
	default:
		return ""
	}
}

// odds writes a small probability as one in so many.
func odds(p float64) string {
	if 1/p > 1e15 {
		return fmt.Sprintf("1 in %.0e", 1/p)
	}
	return "1 in " + text.Grouped(int64(math.Round(1/p)))
}

// factor is e^epsilon.
func factor(epsilon float64) string {
	if epsilon > 14 {
		return fmt.Sprintf("e^%s", text.Figure(epsilon))
	}
	return text.Figure(math.Exp(epsilon))
}

const guessWidth = 300

// bestChance is the best chance of telling, from the release and anything else,
// on which of two neighbouring datasets it was computed, after an even start:
// (e^epsilon + delta) / (e^epsilon + 1). It follows from the trade-off of the
// two error rates in Kairouz, Oh, Viswanath (2015), Theorem 2.1.
func bestChance(epsilon, delta float64) float64 {
	e := math.Exp(-epsilon)
	return (1 + delta*e) / (1 + e)
}

// guess writes a chance; what is not certain never reads as certain.
func guess(chance float64) string {
	if p := 100 * chance; p > 99.9 {
		return "> 99.9%"
	}
	return fmt.Sprintf("%.1f%%", 100*chance)
}
