package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/baseline"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// beside is the table of scores between two baselines; nil without an evaluation that has them.
func beside(e *evaluate.Evaluation) *table {
	if e.Baselines == nil {
		return nil
	}
	t := &table{Name: "Scores beside two baselines", Words: 2,
		Head: []string{"", "better is", "synthetic", "independent columns", "real rows"},
		Says: "Independent columns are real rows in which each column was shuffled by itself: single columns are " +
			"correct, and relations between columns are lost. Real rows are the training rows, compared with the " +
			"test rows: only chance can give a better score."}
	if e.Baselines.Real == nil {
		t.Says += " No real training rows were given, so this column is missing."
	}
	independent, real := e.Baselines.Independent, evaluate.Scores{}
	if e.Baselines.Real != nil {
		real = *e.Baselines.Real
	}
	add := func(name, better string, write func(float64) string, figures ...*float64) {
		row := []string{name, better}
		for _, f := range figures {
			if f == nil {
				row = append(row, "–")
			} else {
				row = append(row, write(*f))
			}
		}
		if slices.ContainsFunc(figures, func(f *float64) bool { return f != nil }) {
			t.Rows = append(t.Rows, row)
		}
	}
	add("Similarity of single "+
		"columns", "higher", text.Score, baseline.Columns(e.Columns), independent.Columns, real.Columns)
	add("Similarity of pairs of columns", "higher", text.Score, baseline.Pairs(e.Pairs), independent.Pairs, real.Pairs)
	for k, m := range e.Marginals {
		add(fmt.Sprintf("Distance of marginals of %s", text.Several(m.Ways, "column")), "lower", text.Score, &m.Mean,
			at(independent.Marginals, k), at(real.Marginals, k))
	}
	if p := e.Propensity; p != nil {
		add("Distinguishable (pMSE ratio)", "lower", text.Figure, &p.Ratio, independent.PMSERatio, real.PMSERatio)
	}
	if b, _, n := meanAUROC(e.Utility, func(m evaluate.ModelUtility) *evaluate.Ranking { return m.B }); n > 0 {
		add("AUROC of models of the label", "higher", text.Score, &b, independent.AUROC, real.AUROC)
	}
	if u := e.Unseen; u != nil {
		add("Rows with a combination of values that no real row "+
			"has", "lower", text.Percent, &u.Rows, &u.Independent, nil)
	}
	return t
}

func at(list []float64, k int) *float64 {
	if k >= len(list) {
		return nil
	}
	return &list[k]
}

// mostWorst is how many pairs of columns a report lists.
const mostWorst = 12

// worstPairs are the least similar pairs of columns, the worst first.
func worstPairs(e *evaluate.Evaluation) *table {
	var known []evaluate.PairTrend
	for _, p := range e.Pairs {
		if p.Score != nil {
			known = append(known, p)
		}
	}
	if len(known) == 0 {
		return nil
	}
	slices.SortStableFunc(known, func(a, b evaluate.PairTrend) int { return cmp.Compare(*a.Score, *b.Score) })
	t := &table{Name: "Pairs of columns, the worst first", Words: 2,
		Head: []string{"columns", "strength by", "real", "synthetic", "similarity"},
		Says: "How strongly two columns go together in both tables: " + strengths + " Similarity of two numbers is " +
			"1 minus half the difference of the correlations; of other pairs it compares the whole joint " +
			"distribution. 1 is the same."}
	if len(known) > mostWorst {
		t.Says += fmt.Sprintf(" Shown are %d of %s.", mostWorst, text.Several(len(known), "pair"))
		known = known[:mostWorst]
	}
	for _, p := range known {
		by, real, synthetic := strength(p)
		t.Rows = append(t.Rows, []string{two(p.Columns), by, real, synthetic, text.Score(*p.Score)})
	}
	return t
}

// strengths explains the measures of how strongly two columns are related.
const strengths = "of two numbers by their correlation, from −1 to 1; of two categories by Cramér's V, of a number " +
	"and a category by the correlation ratio, both from 0 (independent) to 1."

// strength is the strength of a pair's relation in both tables, and its measure.
func strength(p evaluate.PairTrend) (by, real, synthetic string) {
	switch a := p.Association; {
	case p.Real != nil && p.Synthetic != nil:
		return "correlation", text.Correlation(*p.Real), text.Correlation(*p.Synthetic)
	case a != nil && a.Measure == evaluate.CramersV:
		return "Cramér's V", fmt.Sprintf("%.2f", a.Real), fmt.Sprintf("%.2f", a.Synthetic)
	case a != nil:
		return "correlation ratio", fmt.Sprintf("%.2f", a.Real), fmt.Sprintf("%.2f", a.Synthetic)
	default:
		return "–", "–", "–"
	}
}

// strongest is a table of the most strongly related pairs of columns in the synthetic rows alone.
func strongest(pairs []evaluate.PairTrend) *table {
	size := func(p evaluate.PairTrend) float64 {
		switch {
		case p.Association != nil:
			return p.Association.Synthetic
		case p.Synthetic != nil:
			return math.Abs(*p.Synthetic)
		default:
			return 0
		}
	}
	known := slices.DeleteFunc(slices.Clone(pairs), func(p evaluate.PairTrend) bool { return size(p) == 0 })
	if len(known) == 0 {
		return nil
	}
	slices.SortStableFunc(known, func(a, b evaluate.PairTrend) int { return cmp.Compare(size(b), size(a)) })
	t := &table{Name: "Pairs of columns, the strongest first", Words: 2, Head: []string{"columns", "strength " +
		"by", "strength"},
		Says: "How strongly two columns go together in the synthetic rows: " + strengths}
	if len(known) > mostWorst {
		t.Says += fmt.Sprintf(" Shown are %d of %s.", mostWorst, text.Several(len(known), "pair"))
		known = known[:mostWorst]
	}
	for _, p := range known {
		by, _, synthetic := strength(p)
		t.Rows = append(t.Rows, []string{two(p.Columns), by, synthetic})
	}
	return t
}

// unseen lists combinations of values that no real row has; nil if they were not searched, or none were found.
func unseen(e *evaluate.Evaluation) *table {
	u := e.Unseen
	if u == nil || u.Kinds == 0 {
		return nil
	}
	t := &table{Name: "Combinations that no real row has", Words: 2, Head: []string{"columns", "values", "synthetic " +
		"rows"},
		Says: fmt.Sprintf("Values of two columns that occur together in synthetic rows but in none of the given %s. "+
			"%s have at least one such combination. Rare ones may occur in other real rows; many of them, or "+
			"impossible ones, mean that details of the rows are not reliable. Known rules can be added to the schema "+
			"as constraints.",
			text.Several(u.Against, "real row"), text.Percent(u.Rows)+" of the synthetic rows")}
	if u.Kinds > len(u.Combinations) {
		t.Says += fmt.Sprintf(" Shown are the %d most frequent of %s.", len(u.Combinations), text.Grouped(u.Kinds))
	}
	for _, c := range u.Combinations {
		t.Rows = append(t.Rows, []string{two(c.Columns), two(c.Values), text.Percent(c.Rows)})
	}
	return t
}

// two formats two names side by side.
func two(names [2]string) string {
	return text.Shorten(names[0], longestName) + ", " + text.Shorten(names[1], longestName)
}

// Constraints counts the rows that break rules of the schema.
type Constraints struct {
	// Broken has the number of synthetic rows that break each constraint of the schema, in its order.
	Broken []int `json:"broken"`
}

// Says is a sentence about it; empty for a schema without constraints.
func (c *Constraints) Says(rows int) string {
	if c == nil || len(c.Broken) == 0 {
		return ""
	}
	var list []string
	for i, n := range c.Broken {
		if n > 0 {
			list = append(list, fmt.Sprintf("constraint %d by %s", i+1, text.Several(n, "row")))
		}
	}
	if len(list) == 0 {
		return fmt.Sprintf("None of the %s synthetic rows breaks one of the %d constraints of the schema.",
			text.Grouped(rows), len(c.Broken))
	}
	return "Synthetic rows break constraints of the schema: " + strings.Join(list, ", ") + "."
}
