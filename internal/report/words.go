package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

type words struct {
	One          string // the protected unit: "one record", "one patient_id"
	Whom         string
	Meaning      string
	Guess        guess
	Strength     string // the label, and Because which figure decides it
	Because      string
	Stated       string   // what the certificate states but no ledger proves
	Notes        []string // from the certificate, without the one in Guess
	Remainder    string   // delta as odds
	Neighbours   string
	Source       string // what the rows are made from: which answers, from whom
	Teachers     bool   // whether nodes train teachers
	Coin         bool
	Baseline     string // what replaced the answers in a baseline
	Dependent    bool
	SharePercent string // share of the budget that was spent
	Spent        string // an explanation of it
	Masked       string // which sites masked the sums, and against whom the figures hold; empty without masks
}

// guess is the best chance of telling two neighbouring datasets apart.
type guess struct {
	Value string  // as a percentage
	At    float64 // its position between guessing, 0, and certainty, guessWidth
	Says  string  // an explanation of it
	Basis string  // how it was computed, and its assumptions
}

// explain puts the guarantee into words. The figures are those of the budget, not of the spending: if the number
// of answers depends on the votes, the budget is guaranteed, and the spending stays below it.
func (p Page) explain() (words, error) {
	c := p.Certificate
	w := words{
		One: c.One(),
		Whom: "Every record in the training data is protected by itself. A person with several records is protected " +
			"less: each further record weakens the protection.",
		Coin:         c.Votes == certificate.VotesCoin,
		Dependent:    c.Guarantee == certificate.DataDependent,
		SharePercent: text.Percent(c.EpsilonSpent / c.Epsilon),
		Spent:        strings.ToUpper(certificate.SpentNote[:1]) + certificate.SpentNote[1:],
	}
	w.Masked = maskedWords(c.Masked)
	if c.Unit != partition.UnitRecord {
		w.Whom = fmt.Sprintf("All records that share one value of %q are protected together, as one unit.", c.Unit)
	}
	if c.Overlap > 0 {
		w.Whom += fmt.Sprintf(" A unit may be at up to %d of the sites. The noise covers all its changes there.",
			c.Overlap)
	}
	if len(c.Earlier) > 0 {
		w.Whom += fmt.Sprintf(
			" The figures include %s, which this run continued: epsilon is the budget that all runs on these records "+
				"share, and the spending is the total of these runs.", strings.Join(c.Earlier, ", "))
	}
	change := "left out or added"
	if strings.Contains(c.Neighbouring, "replace") {
		change = "replaced by something else"
		if strings.Contains(c.Neighbouring, "add") {
			change = "left out, added or replaced"
		}
	}
	w.Meaning = fmt.Sprintf(
		"If %s had been %s, everything that can be seen in the released files or computed from them would have been "+
			"at most %s times more or less likely than it is now. Delta is, roughly, the "+
			"chance that this fails: %s (%s).",
		w.One, change, factor(c.Epsilon), text.Figure(c.Delta), odds(c.Delta))
	if !w.Dependent {
		w.Meaning += " The guarantee is data-independent: it holds for any records."
	}
	telling, err := c.Tell()
	if err != nil {
		return w, err
	}
	w.Guess = guess{
		Value: meaning.Percent(telling.Chance), At: guessWidth * (2*telling.Chance - 1), Says: telling.Says(w.One),
		Basis: joined(telling.Basis(), telling.Assumption()),
	}
	w.Remainder = odds(c.Delta)
	w.Neighbours = strings.ReplaceAll(c.Neighbouring, "-", " ")
	made, _ := pipelines.Named(c.Pipeline)
	what, instead := made.Words.Answers, made.Words.Baseline
	if w.Teachers = made.Teachers; w.Teachers {
		what += " of " + text.Several(c.Teachers, "teacher")
		if c.TeachersLeast > 0 {
			what += fmt.Sprintf(", at least %s of them in each round", text.Grouped(c.TeachersLeast))
		}
	} else {
		what += " of the sites' records"
	}
	w.Source = "from the " + what
	if w.Coin {
		w.Source = "from " + instead + " in place of the " + what
		w.Baseline = strings.ToUpper(instead[:1]) + instead[1:] + " took the place of the " + made.Words.Answers + "."
	}
	for _, note := range c.Notes {
		if !strings.HasPrefix(note, telling.Sentence(w.One)) {
			w.Notes = append(w.Notes, note)
		}
	}
	g := p.guarantee()
	w.Strength, w.Because = g.Strength(), fmt.Sprintf("%s (%s)", g.Why(), meaning.Source)
	w.Stated = strings.Join(certificate.Stated, ", ")
	return w, nil
}

// guarantee is the guarantee for labels and warnings.
func (p Page) guarantee() meaning.Guarantee {
	return meaning.Guarantee{Epsilon: p.Certificate.Epsilon, Delta: p.Certificate.Delta, Records: p.About.Records}
}

// maskedWords says between which sites a run was masked; empty without masks.
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
		return "counts, or the coefficients of the weighting regression, with noise"
	case privacy.Gaussian:
		return "sums, or the coefficients of the weighting regression, with noise"
	case privacy.SubsampledGaussian:
		return "sums over random samples of the units, with noise"
	case privacy.Exponential:
		return "one of several discriminators, selected at random; those that distinguish synthetic from real rows " +
			"better are more likely"
	default:
		return ""
	}
}

// odds writes a small probability as "one in N".
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
