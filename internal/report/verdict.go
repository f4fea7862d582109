package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// The public thresholds of the verdict. They are conventions: each says how much may be lost before rows no longer
// count as fit, and none depends on data.
const (
	// leastOfReal is the share of the score of real rows that a mean must reach, and the worst column or pair where
	// real rows miss its threshold.
	leastOfReal = 0.95
	// leastColumn is the score that the worst column must reach. A mean over many columns hides one useless
	// column.
	leastColumn = 0.8
	// leastKept is the share that must remain of what real rows add to a baseline: pairs to independent columns,
	// predictions to guessing. Below four fifths, findings are commonly too weak to be found again.
	leastKept = 0.8
	// leastPair is the score that the worst pair of columns must reach.
	leastPair = 0.7
	// leastGain is the least that real rows must add to a baseline for a share of it to mean anything.
	leastGain = 0.02
	// leastAUROC is the AUROC that predictions must reach if no real training rows show what is possible.
	leastAUROC = 0.7
	// mostUnseen is the share of rows with a combination of values that no real row has, beyond which rows do not
	// say which values occur together.
	mostUnseen = 0.05
)

// Verdict answers whether rows can be used, and for what.
type Verdict struct {
	Fit    string `json:"fit"`
	NotFit string `json:"not_fit"`
	Rules  []Rule `json:"rules,omitempty"`
}

// Rule is one of the checks of a verdict.
type Rule struct {
	Use    string `json:"use"`
	Figure string `json:"figure"` // what was found
	Needs  string `json:"needs"`
	Fit    bool   `json:"fit"`
	// Open says that nothing speaks against the use, but that the test rows cannot tell.
	Open bool `json:"open,omitempty"`
}

// never is the use for which no synthetic rows are fit.
const never = "and never for statements about single persons or rare groups, or for decisions about a person"

// verdict follows from the figures of a page and the thresholds above.
func (p Page) verdict(w words) Verdict {
	if w.Coin {
		return Verdict{Fit: "Fit only for comparison: nothing was learned from real rows.",
			NotFit: "Not fit for any analysis, " + never + "."}
	}
	var v Verdict
	if e := p.Evaluation; e != nil {
		for _, rule := range []*Rule{singleColumns(e), pairsOfColumns(e), occurrence(e), prediction(e),
			recognition(e)} {
			if rule != nil {
				v.Rules = append(v.Rules, *rule)
			}
		}
	}
	fit, not, open := v.uses()
	v.Fit, v.NotFit = "Fit for "+listed(fit)+", by the rules below.", "Not fit for "+listed(append(not, never))+"."
	switch {
	case len(v.Rules) == 0:
		v.Fit = "Fit for trying out software and for preparing an analysis; other uses were not measured, because " +
			"nothing was compared with real rows."
		if len(p.Figures) > 0 {
			v.Fit = "Fit for trying out software and for preparing an analysis; of other uses only the distance from " +
				"the real rows was measured: see below."
		}
		v.NotFit = "Not fit for findings before they are checked on real rows, " + never + "."
	case len(fit) == 0:
		v.Fit = "Fit for trying out software and for preparing an analysis, and for no other measured use."
	}
	if len(open) > 0 {
		v.Fit = strings.TrimSuffix(v.Fit, ".") + "; the test rows cannot tell whether for " + listed(open) + "."
	}
	if p.guarantee().Strength() == meaning.Weak {
		v.NotFit = strings.TrimSuffix(v.NotFit, ".") + "; the protection is weak, so do not share the rows with " +
			"people who may not see the real rows, unless a responsible person decides to."
	}
	return v
}

func (v Verdict) uses() (fit, not, open []string) {
	for _, r := range v.Rules {
		switch {
		case r.Fit:
			fit = append(fit, r.Use)
		case r.Open:
			open = append(open, r.Use)
		default:
			not = append(not, r.Use)
		}
	}
	return fit, not, open
}

// listed joins parts of a sentence; the part that never holds begins with its own word.
func listed(parts []string) string {
	last := len(parts) - 1
	switch {
	case last < 0:
		return ""
	case parts[last] == never && last == 0:
		return "findings that are not checked on real rows, " + never
	case last == 0:
		return parts[0]
	case parts[last] == never:
		return listed(parts[:last]) + ", " + never
	default:
		return strings.Join(parts[:last], ", ") + " and " + parts[last]
	}
}

// reached are the mean and the worst similarity that real rows have, nil if they are unknown.
type reached struct{ mean, worst *float64 }

// leastMean is the least mean, and how the page says it: a share of what real rows reach, of 1 if none are known.
func (r reached) leastMean() (float64, string) {
	if r.mean == nil {
		return leastOfReal, text.Score(leastOfReal)
	}
	return ofReal(*r.mean)
}

// leastWorst is the least score of the worst: few test rows must not ask for more than real rows reach.
func (r reached) leastWorst(usual float64) (float64, string) {
	if r.worst == nil || leastOfReal**r.worst >= usual {
		return usual, text.Score(usual)
	}
	return ofReal(*r.worst)
}

func ofReal(score float64) (float64, string) {
	least := leastOfReal * score
	return least, fmt.Sprintf("%s (%s of that of real rows)", text.Score(least), text.Percent(leastOfReal))
}

// similar is the rule for similarities, beside those of real rows or else those of two halves of the test rows: what
// misses the thresholds by no more than the halves do was not shown to be wrong.
func similar(use, of string, all similarities, usual float64, real, halves reached) *Rule {
	if all.n == 0 {
		return nil
	}
	mean := all.sum / float64(all.n)
	reaches := func(r reached) bool {
		least, _ := r.leastMean()
		worst, _ := r.leastWorst(usual)
		return mean >= least && all.worst >= worst
	}
	_, needs := real.leastMean()
	_, needsWorst := real.leastWorst(usual)
	r := &Rule{
		Use:    use,
		Figure: fmt.Sprintf("similarity %s, the worst %s %s", text.Score(mean), of, text.Score(all.worst)),
		Needs:  fmt.Sprintf("a mean of %s, and %s of the worst", needs, needsWorst),
		Fit:    reaches(real),
	}
	if halves.mean != nil && !r.Fit && reaches(halves) {
		r.Open = true
		r.Figure += fmt.Sprintf("; the test rows are too few: one half has %s beside the other, the worst %s %s",
			text.Score(*halves.mean), of, text.Score(*halves.worst))
	}
	return r
}

func singleColumns(e *evaluate.Evaluation) *Rule {
	var all similarities
	for _, c := range e.Columns {
		all.add(c.Score, c.Column)
	}
	of := func(s *evaluate.Scores) reached {
		if s == nil {
			return reached{}
		}
		return reached{s.Columns, s.WorstColumn}
	}
	b := cmp.Or(e.Baselines, &evaluate.Baselines{})
	return similar("shares and averages of single columns", "column", all, leastColumn, of(b.Real), of(b.Halves))
}

func pairsOfColumns(e *evaluate.Evaluation) *Rule {
	var all similarities
	for _, p := range e.Pairs {
		all.add(p.Score, p.Columns[:]...)
	}
	of := func(s *evaluate.Scores) reached {
		if s == nil {
			return reached{}
		}
		return reached{s.Pairs, s.WorstPair}
	}
	b := cmp.Or(e.Baselines, &evaluate.Baselines{})
	real, independent := of(b.Real), b.Independent.Pairs
	r := similar("relations between two columns", "pair", all, leastPair, real, of(b.Halves))
	if r == nil || real.mean == nil || independent == nil {
		return r
	}
	if gain := *real.mean - *independent; gain >= leastGain {
		kept := (all.sum/float64(all.n) - *independent) / gain
		worst, needs := real.leastWorst(leastPair)
		r.Figure += fmt.Sprintf(", %s of what real rows add to independent columns", signedPercent(kept))
		r.Needs = fmt.Sprintf("%s of what real rows add, and %s of the worst pair", text.Percent(leastKept), needs)
		r.Fit = kept >= leastKept && all.worst >= worst
		return r
	}
	// Rows without any relation reach as much.
	r.Open, r.Fit = r.Fit, false
	r.Figure += fmt.Sprintf("; real rows have %s, independent columns %s: too close to say how much was kept, because "+
		"the test rows are too few or the columns hardly depend on each other", text.Score(*real.mean),
		text.Score(*independent))
	return r
}

func occurrence(e *evaluate.Evaluation) *Rule {
	if e.Unseen == nil {
		return nil
	}
	return &Rule{
		Use: "combinations of values",
		Figure: fmt.Sprintf("%s of the rows have a combination of two values that does not occur in %s",
			text.Percent(e.Unseen.Rows), text.Several(e.Unseen.Against, "real row")),
		Needs: "at most " + text.Percent(mostUnseen),
		Fit:   e.Unseen.Rows <= mostUnseen,
	}
}

func prediction(e *evaluate.Evaluation) *Rule {
	b, _, n := meanAUROC(e.Utility, func(m evaluate.ModelUtility) *evaluate.Ranking { return m.B })
	if n == 0 {
		return nil
	}
	r := &Rule{
		Use: "training models of the label", Figure: "AUROC " + text.Score(b),
		Needs: "an AUROC of " + text.Score(leastAUROC), Fit: b >= leastAUROC,
	}
	a, sameB, n := meanAUROC(e.Utility, func(m evaluate.ModelUtility) *evaluate.Ranking { return m.A })
	if n > 0 && a-0.5 >= leastGain {
		kept := (sameB - 0.5) / (a - 0.5)
		r.Figure += fmt.Sprintf(", %s of what real rows add to guessing", signedPercent(kept))
		r.Needs, r.Fit = text.Percent(leastKept)+" of what real rows add", kept >= leastKept
	}
	return r
}

func recognition(e *evaluate.Evaluation) *Rule {
	i := e.Images
	if i == nil {
		return nil
	}
	return &Rule{
		Use: "training models that recognize images",
		Figure: fmt.Sprintf("accuracy %s, of real images "+
			"%s", text.Score(i.AccuracySynthetic), text.Score(i.AccuracyReal)),
		Needs: text.Percent(leastKept) + " of that of real images",
		Fit:   i.AccuracySynthetic >= leastKept*i.AccuracyReal,
	}
}

// signedPercent formats a share that may be negative.
func signedPercent(share float64) string {
	if share < 0 {
		return "−" + text.Percent(-share)
	}
	return text.Percent(share)
}

// table is the table of the rules; nil without rules. The answer stands beside the use, before the figures that lead to
// it.
func (v Verdict) table() *table {
	if len(v.Rules) == 0 {
		return nil
	}
	t := &table{Name: "The rules of the verdict", Words: 4, Head: []string{"use", "fit?", "found", "needed"},
		Says: "The best similarity, and the best AUROC, is 1. The thresholds are conventions, the same for all data."}
	for _, r := range v.Rules {
		fit := "no"
		switch {
		case r.Fit:
			fit = "yes"
		case r.Open:
			fit = "cannot tell"
		}
		t.Rows = append(t.Rows, []string{r.Use, fit, r.Figure, r.Needs})
	}
	return t
}
