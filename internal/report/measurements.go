package report

import (
	"fmt"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// table is a plain table, the same in HTML and in Markdown.
type table struct {
	Name  string
	Says  string // what is good and what is bad, in a sentence or two
	Head  []string
	Rows  [][]string
	Words int // leading columns with words; the others have figures
}

// measurements are the tables of an evaluation that have no picture: NOT PRIVATE.
func measurements(e *evaluate.Evaluation) []table {
	if e == nil {
		return nil
	}
	var list []table
	for _, t := range []*table{beside(e), worstPairs(e), unseen(e), marginals(e), propensity(e), regression(e),
		closeness(e), imageQuality(e)} {
		if t != nil {
			list = append(list, *t)
		}
	}
	return list
}

func marginals(e *evaluate.Evaluation) *table {
	if len(e.Marginals) == 0 {
		return nil
	}
	t := &table{Name: "Marginals", Words: 2, Head: []string{"Columns taken together", "the worst set", "sets",
		"mean distance", "worst"},
		Says: "The distance of the joint distribution of some columns from the real one (total variation distance): " +
			"0 is identical, 1 is disjoint. It grows with the number of columns, even for good rows."}
	for _, m := range e.Marginals {
		names := make([]string, len(m.Widest))
		for i, n := range m.Widest {
			names[i] = text.Shorten(n, longestName)
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(m.Ways), strings.Join(names, ", "), text.Grouped(m.Sets),
			text.Score(m.Mean),
			text.Score(m.Worst)})
	}
	return t
}

func propensity(e *evaluate.Evaluation) *table {
	if e.Propensity == nil {
		return nil
	}
	most := ""
	if share := 1 - 1/e.Propensity.RatioOfEqual; share > 0 && share < 1 { // of synthetic rows
		most = fmt.Sprintf(" (the maximum with these numbers of rows is %s)", text.Figure(share*(1-share)))
	}
	return &table{Name: "Distinguishable from real rows", Words: 1, Head: []string{"", "figure"},
		Says: "A logistic regression tries to tell synthetic from real rows. Good is a pMSE near 0" + most +
			" and a ratio near that of further rows of the same source. Bad is a large ratio: something about the " +
			"rows gives them away, and with many rows little is enough.",
		Rows: [][]string{{"pMSE", text.Figure(e.Propensity.PMSE)}, {"pMSE ratio", text.Figure(e.Propensity.Ratio)},
			{"ratio of further rows of the same source", text.Figure(e.Propensity.RatioOfEqual)}}}
}

func regression(e *evaluate.Evaluation) *table {
	if len(e.Regression) == 0 {
		return nil
	}
	t := &table{Name: "Predicting a number", Words: 1,
		Head: []string{"Column predicted", "error, trained on synthetic", "error, trained on real",
			"squared difference of coefficients"},
		Says: "The root mean squared error of a linear regression on real test rows. A good error is near that of " +
			"training on real rows, and the coefficients hardly differ."}
	for _, r := range e.Regression {
		t.Rows = append(t.Rows, []string{text.Shorten(r.Column, longestName), text.Figure(r.RMSESynthetic),
			maybe(r.RMSEReal),
			maybe(r.BetaMSE)})
	}
	return t
}

func closeness(e *evaluate.Evaluation) *table {
	c := e.Closeness
	if c == nil {
		return nil
	}
	return &table{Name: "Closeness to single real rows", Words: 1, Head: []string{"", "training rows", "test rows"},
		Says: "Test rows were not used in the training. Good: both columns are similar, and the last two lines are " +
			"near 0.5. Bad: more copies of training rows, shorter distances to them, or a figure well above 0.5, " +
			"which means that rows were memorized.",
		Rows: [][]string{
			{"Synthetic rows that equal a row of these", text.Percent(c.CopiesTrain), text.Percent(c.CopiesTest)},
			{"Median distance to the closest of these", text.Figure(c.DistanceTrain), text.Figure(c.DistanceTest)},
			{"Share of synthetic rows that are closer to training rows", text.Score(c.CloserToTrain), ""},
			{"AUROC of distinguishing training from test rows (membership)", text.Score(c.MembershipAUROC), ""},
		}}
}

func imageQuality(e *evaluate.Evaluation) *table {
	i := e.Images
	if i == nil {
		return nil
	}
	t := &table{Name: "Images", Words: 1, Head: []string{"", "synthetic", "real"},
		Says: "Measured by a classifier trained on real images. Good values: accuracy and score near those of real " +
			"images, and a Fréchet distance near 0. The Inception network is not used.",
		Rows: [][]string{
			{"Accuracy on real images after training on these", text.Score(i.AccuracySynthetic),
				text.Score(i.AccuracyReal)},
			{"Classifier score", text.Figure(i.ScoreSynthetic), text.Figure(i.ScoreReal)},
			{"Fréchet distance to real images", text.Figure(i.FrechetDistance), ""},
			{"Fréchet distance, mean of the classes", maybe(i.FrechetByClass), ""},
		}}
	if i.AccuracyCoinFlips != nil {
		t.Head = append(t.Head, "coin flips")
		t.Rows[0] = append(t.Rows[0], text.Score(*i.AccuracyCoinFlips))
		t.Rows[1] = append(t.Rows[1], maybe(i.ScoreCoinFlips))
		t.Rows[2] = append(t.Rows[2], maybe(i.FrechetCoinFlips))
		t.Rows[3] = append(t.Rows[3], maybe(i.ByClassCoinFlips))
	}
	return t
}

func maybe(v *float64) string {
	if v == nil {
		return "–"
	}
	return text.Figure(*v)
}
