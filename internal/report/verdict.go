package report

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/baseline"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// The public thresholds of the verdict. They are conventions: each says how much may be lost before rows no longer
// count as fit, and none depends on data.
const (
	// leastOfReal is the share of the score of real rows that a mean over columns must reach. Samples of some
	// hundred rows differ by less than a twentieth.
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
	fit, not := v.uses(true), v.uses(false)
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
	if p.guarantee().Strength() == meaning.Weak {
		v.NotFit = strings.TrimSuffix(v.NotFit, ".") + "; the protection is weak, so do not share the rows with " +
			"people who may not see the real rows, unless a responsible person decides to."
	}
	return v
}

func (v Verdict) uses(fit bool) (list []string) {
	for _, r := range v.Rules {
		if r.Fit == fit {
			list = append(list, r.Use)
		}
	}
	return list
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

func singleColumns(e *evaluate.Evaluation) *Rule {
	score := baseline.Columns(e.Columns)
	if score == nil {
		return nil
	}
	least, share := leastOfReal, ""
	if b := e.Baselines; b != nil && b.Real != nil && b.Real.Columns != nil {
		least *= *b.Real.Columns
		share = fmt.Sprintf(" (%s of that of real rows)", text.Percent(leastOfReal))
	}
	var all similarities
	for _, c := range e.Columns {
		all.add(c.Score, c.Column)
	}
	return &Rule{
		Use:    "shares and averages of single columns",
		Figure: fmt.Sprintf("similarity %s, the worst column %s", text.Score(*score), text.Score(all.worst)),
		Needs: fmt.Sprintf("a mean of %s%s, and %s of the worst", text.Score(least), share,
			text.Score(leastColumn)),
		Fit: *score >= least && all.worst >= leastColumn,
	}
}

func pairsOfColumns(e *evaluate.Evaluation) *Rule {
	score := baseline.Pairs(e.Pairs)
	if score == nil {
		return nil
	}
	var all similarities
	for _, p := range e.Pairs {
		all.add(p.Score, p.Columns[:]...)
	}
	r := &Rule{
		Use:    "relations between two columns",
		Figure: fmt.Sprintf("similarity %s, the worst pair %s", text.Score(*score), text.Score(all.worst)),
		Needs:  fmt.Sprintf("a mean of %s, and %s of the worst", text.Score(leastOfReal), text.Score(leastPair)),
		Fit:    *score >= leastOfReal && all.worst >= leastPair,
	}
	b := e.Baselines
	if b == nil || b.Real == nil || b.Real.Pairs == nil || b.Independent.Pairs == nil {
		return r
	}
	gain := *b.Real.Pairs - *b.Independent.Pairs
	if gain < leastGain {
		r.Figure += fmt.Sprintf("; real rows have %s, independent columns %s: too close to say how much was kept",
			text.Score(*b.Real.Pairs), text.Score(*b.Independent.Pairs))
	} else {
		kept := (*score - *b.Independent.Pairs) / gain
		r.Figure += fmt.Sprintf(", %s of what real rows add to independent columns", signedPercent(kept))
		r.Needs = fmt.Sprintf("%s of what real rows add, and %s of the worst pair", text.Percent(leastKept),
			text.Score(leastPair))
		r.Fit = kept >= leastKept && all.worst >= leastPair
	}
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

// table is the table of the rules; nil without rules.
func (v Verdict) table() *table {
	if len(v.Rules) == 0 {
		return nil
	}
	t := &table{Name: "The rules of the verdict", Words: 4, Head: []string{"use", "found", "needed", "fit"},
		Says: "The thresholds are conventions, the same for all data."}
	for _, r := range v.Rules {
		fit := "no"
		if r.Fit {
			fit = "yes"
		}
		t.Rows = append(t.Rows, []string{r.Use, r.Figure, r.Needs, fit})
	}
	return t
}
