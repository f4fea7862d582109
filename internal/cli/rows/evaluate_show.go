package rows

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/evaluate"
)

// showEvaluation prints the measurements as aligned tables.
func showEvaluation(e *evaluate.Evaluation, took time.Duration) error {
	fmt.Printf("%s\n%d synthetic and %d real test rows", e.Privacy, e.Rows.Synthetic, e.Rows.Test)
	if e.Rows.Train > 0 {
		fmt.Printf(", %d real training rows", e.Rows.Train)
	}
	fmt.Printf("; %.1f s\n", took.Seconds())
	if v := e.Weights; v != nil {
		fmt.Printf("the synthetic rows have weights; effective sample size: %.4g\n",
			v.EffectiveSampleSize)
	}
	w := cli.Columns()
	showModels(w, e)
	showColumns(w, e)
	showImages(w, e.Images)
	showCloseness(w, e.Closeness)
	if err := w.Flush(); err != nil {
		return err
	}
	for i, note := range e.Notes {
		if i == 0 {
			fmt.Println()
		}
		fmt.Println(note)
	}
	return nil
}

// section starts a table with this head.
func section(w io.Writer, head ...string) { fmt.Fprintf(w, "\n%s\n", strings.Join(head, "\t")) }

// showModels prints how well models learn from the rows, and whether a model can tell the rows from real ones.
func showModels(w io.Writer, e *evaluate.Evaluation) {
	if len(e.Utility) > 0 {
		section(w, "AUROC (average precision) of classifiers", "train real, test real", "train synthetic, test real",
			"train and test synthetic", "coin flips")
		for _, u := range e.Utility {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n",
				u.Model, ranking(u.A), ranking(u.B), ranking(u.C), ranking(u.CoinFlips))
		}
	}
	blank := "\n"
	figure := func(name string, value *float64) {
		if value != nil {
			fmt.Fprintf(w, "%s%s\t%.4g\n", blank, name, *value)
			blank = ""
		}
	}
	figure("synthetic ranking agreement (1: same order of models)", e.RankingAgreement)
	figure("agreement on the importance of columns (1: same order)", e.ImportanceAgreement)
	if p := e.Propensity; p != nil {
		figure("propensity score pMSE (0: indistinguishable)", &p.PMSE)
		figure(fmt.Sprintf("its ratio to Snoke's expectation (%.2g for rows of the same distribution)", p.RatioOfEqual),
			&p.Ratio)
	}
}

// showColumns prints the similarity of columns, alone, in pairs and in larger sets, and the results of regressions on
// them.
func showColumns(w io.Writer, e *evaluate.Evaluation) {
	if len(e.Columns) > 0 {
		section(w, "columns", "similarity", "measure", "empty cells", "Wasserstein distance")
		for _, c := range e.Columns {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%s\n",
				c.Column, number(c.Score), c.Measure, c.MissingSimilarity, number(c.Wasserstein))
		}
	}
	if mean, worst, n := pairSummary(e.Pairs); n > 0 {
		section(w, "pairs of columns", "mean similarity", "worst", "of")
		fmt.Fprintf(w, "%d\t%.3f\t%s\t%s and %s\n", n, mean, number(worst.Score), worst.Columns[0], worst.Columns[1])
	}
	if len(e.Marginals) > 0 {
		section(w, "distance of joint distributions (0: identical)", "mean", "worst", "of")
		for _, m := range e.Marginals {
			fmt.Fprintf(w, "%d columns, %d sets\t%.3f\t%.3f\t%s\n",
				m.Ways, m.Sets, m.Mean, m.Worst, strings.Join(m.Widest, ", "))
		}
	}
	if len(e.Regression) > 0 {
		section(w, "linear regression of", "RMSE after real rows", "after synthetic rows",
			"mean squared difference of coefficients")
		for _, r := range e.Regression {
			fmt.Fprintf(w, "%s\t%s\t%.4g\t%s\n", r.Column, anySize(r.RMSEReal), r.RMSESynthetic, anySize(r.BetaMSE))
		}
	}
}

func showImages(w io.Writer, i *evaluate.ImageQuality) {
	if i == nil {
		return
	}
	section(w, "images", "real", "synthetic", "coin flips")
	fmt.Fprintf(w, "accuracy on real test images after training on\t%.4f\t%.4f\t%s\n",
		i.AccuracyReal, i.AccuracySynthetic, number(i.AccuracyCoinFlips))
	fmt.Fprintf(w, "classifier score (not the Inception network's)\t%.3f\t%.3f\t%s\n",
		i.ScoreReal, i.ScoreSynthetic, number(i.ScoreCoinFlips))
	fmt.Fprintf(w, "Fréchet distance of a classifier's features (not the Inception network's)\t\t%.3f\t%s\n",
		i.FrechetDistance, number(i.FrechetCoinFlips))
	fmt.Fprintf(w, "the same, mean of the classes\t\t%s\t%s\n", number(i.FrechetByClass), number(i.ByClassCoinFlips))
}

func showCloseness(w io.Writer, c *evaluate.Closeness) {
	if c == nil {
		return
	}
	section(w, "closeness to real rows", "training rows", "test rows")
	fmt.Fprintf(w, "synthetic rows that equal one\t%.4f\t%.4f\n", c.CopiesTrain, c.CopiesTest)
	fmt.Fprintf(w, "median distance to the closest\t%.4g\t%.4g\n", c.DistanceTrain, c.DistanceTest)
	fmt.Fprintf(w, "synthetic rows closer to a training row (0.5 is ideal)\t%.3f\n", c.CloserToTrain)
	fmt.Fprintf(w, "membership attack, AUROC (0.5 is guessing)\t%.3f\n", c.MembershipAUROC)
}

func ranking(r *evaluate.Ranking) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f (%.3f)", r.AUROC, r.AveragePrecision)
}

func number(v *float64) string { return shown("%.3f", v) }

// anySize formats a number of any size, which three decimals might show as 0.
func anySize(v *float64) string { return shown("%.4g", v) }

func shown(format string, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

// pairSummary is the mean of the pairs that have a score, and the worst of them.
func pairSummary(pairs []evaluate.PairTrend) (mean float64, worst evaluate.PairTrend, n int) {
	for _, p := range pairs {
		if p.Score == nil {
			continue
		}
		mean += *p.Score
		if n == 0 || *p.Score < *worst.Score {
			worst = p
		}
		n++
	}
	return mean / float64(max(n, 1)), worst, n
}
