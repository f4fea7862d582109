package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// finding is a figure with its name and what it says, in plain words.
type finding struct {
	Name, Value, Says string
}

// findings summarize an evaluation in a few sentences: NOT PRIVATE.
func findings(e *evaluate.Evaluation) []finding {
	if e == nil {
		return nil
	}
	var list []finding
	for _, f := range []*finding{useful(e), recognized(e), alike(e), together(e), told(e), remembered(e)} {
		if f != nil {
			list = append(list, *f)
		}
	}
	return list
}

// meanAUROC averages a setting over the models that know it and B.
func meanAUROC(models []evaluate.ModelUtility, of func(evaluate.ModelUtility) *evaluate.Ranking) (mean, meanB float64,
	n int) {
	for _, m := range models {
		if r := of(m); r != nil && m.B != nil {
			mean, meanB, n = mean+r.AUROC, meanB+m.B.AUROC, n+1
		}
	}
	return mean / float64(n), meanB / float64(n), n
}

func useful(e *evaluate.Evaluation) *finding {
	b, _, n := meanAUROC(e.Utility, func(m evaluate.ModelUtility) *evaluate.Ranking { return m.B })
	if n == 0 {
		return nil
	}
	f := &finding{Name: "Useful for prediction", Value: text.Score(b)}
	f.Says = fmt.Sprintf(
		"The AUROC that %s reached on real rows after training on the synthetic ones; 0.5 is guessing, 1 is perfect.",
		averaged(n))
	if a, sameB, n := meanAUROC(e.Utility, func(m evaluate.ModelUtility) *evaluate.Ranking { return m.A }); n > 0 {
		f.Says += fmt.Sprintf(" Trained on real rows, the same models reached %s.", text.Score(a))
		if a > 0.55 && sameB > 0.5 {
			f.Says += fmt.Sprintf(" So the synthetic rows keep %s of the improvement over guessing.",
				text.Percent((sameB-0.5)/(a-0.5)))
		} else if a > 0.55 {
			f.Says += " So the synthetic rows are no better than guessing."
		}
	}
	if coin, _, n := meanAUROC(e.Utility, func(m evaluate.ModelUtility) *evaluate.Ranking {
		return m.CoinFlips
	}); n > 0 {
		f.Says += fmt.Sprintf(" Rows of coin flips give %s.", text.Score(coin))
	}
	return f
}

// recognized is the finding of useful, for images.
func recognized(e *evaluate.Evaluation) *finding {
	i := e.Images
	if i == nil {
		return nil
	}
	f := &finding{Name: "Useful for recognition", Value: text.Score(i.AccuracySynthetic)}
	f.Says = "The accuracy on real images of a small convolutional network that was trained on the synthetic ones."
	if e.Rows.Train > 0 {
		f.Says += fmt.Sprintf(" Trained on the real images of the training, it reached %s.", text.Score(i.AccuracyReal))
	} else {
		f.Says += fmt.Sprintf(" Trained on half of the real test images, it reached %s.", text.Score(i.AccuracyReal))
	}
	if i.AccuracyCoinFlips != nil {
		f.Says += fmt.Sprintf(" Images of coin flips give %s.", text.Score(*i.AccuracyCoinFlips))
	}
	return f
}

func averaged(models int) string {
	if models == 1 {
		return "one model"
	}
	return fmt.Sprintf("%d models on average", models)
}

// weighing explains the weights of the synthetic rows; nil without weights. It depends only on the synthetic rows.
func weighing(w *evaluate.Weights, rows int) *finding {
	if w == nil {
		return nil
	}
	says := fmt.Sprintf(
		"Each row has an importance weight. The effective sample size of the %s rows is %s (%s of them): averages "+
			"over the rows are about as exact as over that many rows of equal weight. ",
		text.Grouped(rows), text.Figure(w.EffectiveSampleSize),
		text.Percent(w.EffectiveSampleSize/float64(max(1, rows))))
	says += fmt.Sprintf("The largest weight is %s times the mean", text.Figure(w.Largest))
	if w.Zero > 0 {
		says += fmt.Sprintf(", and %s rows have the weight 0", text.Grouped(w.Zero))
	}
	return &finding{Name: "Effective sample size", Value: text.Figure(w.EffectiveSampleSize),
		Says: says + ". A small share means that few rows have most of the weight. The figures on this page use the " +
			"weights."}
}

func alike(e *evaluate.Evaluation) *finding {
	var list similarities
	for _, c := range e.Columns {
		list.add(c.Score, c.Column)
	}
	return list.finding("Single columns",
		"How similar the distribution of a column is to the real one, on average; 100% is identical.")
}

func together(e *evaluate.Evaluation) *finding {
	var list similarities
	for _, p := range e.Pairs {
		list.add(p.Score, p.Columns[0], p.Columns[1])
	}
	return list.finding("Pairs of columns",
		"How similar the relation of two columns is to the real one, on average over pairs; 100% is identical.")
}

// similarities are the mean and the worst of the known scores.
type similarities struct {
	sum, worst float64
	of         []string // columns, of the worst
	n          int
}

func (s *similarities) add(score *float64, of ...string) {
	if score == nil {
		return
	}
	if s.n == 0 || *score < s.worst {
		s.worst, s.of = *score, of
	}
	s.sum, s.n = s.sum+*score, s.n+1
}

func (s *similarities) finding(name, says string) *finding {
	if s.n == 0 {
		return nil
	}
	if s.n > 1 {
		names := make([]string, len(s.of))
		for i, column := range s.of {
			names[i] = text.Shorten(column, longestName)
		}
		says += fmt.Sprintf(" The least similar is %s, with %s.", strings.Join(names, " with "), text.Percent(s.worst))
	}
	return &finding{Name: name, Value: text.Percent(s.sum / float64(s.n)), Says: says}
}

func told(e *evaluate.Evaluation) *finding {
	if e.Propensity == nil {
		return nil
	}
	return &finding{"Distinguishable", text.Figure(e.Propensity.Ratio),
		fmt.Sprintf(
			"The pMSE ratio: how well a model distinguishes synthetic from real rows. About %s is ideal, as for "+
				"further rows from the same source; a larger ratio means that they are easier to distinguish. With "+
				"many rows, small differences already give a large ratio.", text.Figure(e.Propensity.RatioOfEqual))}
}

// nearGuessing is how far a figure may be from 0.5 before the page advises a closer look.
const nearGuessing = 0.05

// chanceCopies is how far the share of copies of training rows may exceed that of test rows before the page advises a
// closer look: three standard deviations of the difference of two counts, and at most 0.01.
func chanceCopies(e *evaluate.Evaluation) float64 {
	c, rows := e.Closeness, float64(e.Rows.Synthetic)
	if e.Weights != nil {
		rows = e.Weights.EffectiveSampleSize
	}
	return math.Min(0.01, 3*math.Sqrt((c.CopiesTrain+c.CopiesTest)/math.Max(1, rows)))
}

func remembered(e *evaluate.Evaluation) *finding {
	c := e.Closeness
	if c == nil {
		return nil
	}
	f := &finding{Name: "Memorized training rows", Value: "no sign"}
	f.Says = "The synthetic rows are no closer to the training rows than to rows outside the training."
	if c.TestInTrain >= 0.5 {
		f.Value = "cannot be told"
		f.Says = fmt.Sprintf(
			"%s of the test rows equal a training row. Memorized rows would then be as close to both, and cannot be "+
				"detected.", text.Percent(c.TestInTrain))
	}
	if c.CloserToTrain > 0.5+nearGuessing || c.MembershipAUROC > 0.5+nearGuessing ||
		c.CopiesTrain-c.CopiesTest > chanceCopies(e) {
		f.Value = "look closer"
		f.Says = "Synthetic rows are closer to the training rows than to rows outside the training. See the figures " +
			"on closeness below."
	}
	f.Says += " This tests the software with these rows; the guarantee holds for any rows and any attack."
	return f
}

// longestName is the largest part of a column's name that a sentence shows, in characters.
const longestName = 40
