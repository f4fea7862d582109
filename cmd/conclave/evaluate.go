package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/partition"
)

// evaluateFlags are the files of an evaluation.
type evaluateFlags struct {
	real, synthetic, train, coin, schema, models string
}

func evaluateRows(ctx context.Context, args []string) error {
	f := flags("evaluate", "evaluate --real test.csv --synthetic FILE [flags]")
	var e evaluateFlags
	f.StringVar(&e.real, "real", "", "real test rows; of images an idx file, with its labels beside it, or IMAGES,LABELS")
	f.StringVar(&e.synthetic, "synthetic", "", "synthetic rows, with a column weight or without; of images as --real")
	f.StringVar(&e.train, "train-real", "", "the real rows that were trained on, for the ceiling and closeness")
	f.StringVar(&e.coin, "coin-flips", "", "rows of the same run with --votes coin, the baseline")
	f.StringVar(&e.schema, "schema", "", "the schema (default: schema.yaml beside --real, or model/schema.yaml beside --synthetic)")
	f.StringVar(&e.models, "models", "", "only these classifiers, separated by commas")
	format := formatFlag(f, "table")
	if err := parse(f, args); err != nil {
		return err
	}
	if e.real == "" || e.synthetic == "" {
		return misuse(f, "--real and --synthetic are needed")
	}
	schema, err := e.loadSchema()
	if err != nil {
		return err
	}
	started := time.Now()
	result, err := e.measure(ctx, schema)
	if ctx.Err() != nil {
		return errors.New("interrupted; an evaluation cannot be resumed, start it again")
	}
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(result)
	}
	return showEvaluation(result, time.Since(started))
}

// loadSchema finds the schema where it usually is.
func (e *evaluateFlags) loadSchema() (*partition.Schema, error) {
	if e.schema != "" {
		return partition.LoadSchema(e.schema)
	}
	first := func(list string) string { path, _, _ := strings.Cut(list, ","); return filepath.Dir(path) }
	for _, path := range []string{filepath.Join(first(e.real), "schema.yaml"), filepath.Join(first(e.synthetic), "model", "schema.yaml")} {
		if _, err := os.Stat(path); err == nil {
			return partition.LoadSchema(path)
		}
	}
	return nil, errors.New("no schema.yaml beside --real and no model/schema.yaml beside --synthetic; name one with --schema")
}

func (e *evaluateFlags) measure(ctx context.Context, schema *partition.Schema) (*evaluate.Evaluation, error) {
	if schema.Format == "idx" {
		return e.measureImages(ctx, schema)
	}
	in := evaluate.Input{}
	if e.models != "" {
		in.Models = strings.Split(e.models, ",")
	}
	synthetic := partition.ReadOptions{IgnoreUnit: true, Weights: true}
	for _, file := range []struct {
		path    string
		into    **partition.Table
		options partition.ReadOptions
	}{
		{e.real, &in.Test, partition.ReadOptions{}},
		{e.synthetic, &in.Synthetic, synthetic},
		{e.train, &in.Train, partition.ReadOptions{}},
		{e.coin, &in.CoinFlips, synthetic},
	} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.into, err = partition.Read(schema, file.path, file.options); err != nil {
			return nil, err
		}
	}
	return evaluate.Evaluate(ctx, in)
}

func (e *evaluateFlags) measureImages(ctx context.Context, schema *partition.Schema) (*evaluate.Evaluation, error) {
	if e.models != "" {
		return nil, errors.New("--models are for tables, and the schema is of images; leave it out")
	}
	in := evaluate.ImageInput{Classes: len(schema.Classes())}
	read := func(path string) (*partition.Images, error) {
		if images, labels, two := strings.Cut(path, ","); two {
			return partition.ReadIDX(schema, images, labels)
		}
		if path != e.synthetic {
			return partition.ReadImages(schema, path, partition.ReadOptions{})
		}
		t, err := partition.Read(schema, path, partition.ReadOptions{Weights: true}) // which CSV may have
		if err != nil {
			return nil, err
		}
		in.Weight = t.Weights()
		return t.Images()
	}
	for _, file := range []struct {
		path string
		into **partition.Images
	}{{e.real, &in.Test}, {e.synthetic, &in.Synthetic}, {e.train, &in.Train}, {e.coin, &in.CoinFlips}} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.into, err = read(file.path); err != nil {
			return nil, err
		}
	}
	return evaluate.EvaluateImages(ctx, in)
}

func showEvaluation(e *evaluate.Evaluation, took time.Duration) error {
	fmt.Printf("%s\n%d synthetic and %d real test rows", e.Privacy, e.Rows.Synthetic, e.Rows.Test)
	if e.Rows.Train > 0 {
		fmt.Printf(", %d real training rows", e.Rows.Train)
	}
	fmt.Printf("; %.1f s\n", took.Seconds())
	if v := e.Weights; v != nil {
		fmt.Printf("the synthetic rows have weights, and are worth %.4g rows of equal weight (effective sample size)\n", v.EffectiveSampleSize)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	section := func(head string) { fmt.Fprintf(w, "\n%s\n", head) }
	if len(e.Utility) > 0 {
		section("AUROC (average precision) of classifiers\ttrain real, test real\ttrain synthetic, test real\ttrain and test synthetic\tcoin flips")
		for _, u := range e.Utility {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", u.Model, ranking(u.A), ranking(u.B), ranking(u.C), ranking(u.CoinFlips))
		}
	}
	type figure struct {
		name  string
		value *float64
	}
	figures := []figure{
		{"synthetic ranking agreement (1 is the same order of models)", e.RankingAgreement},
		{"agreement on the importance of columns (1 is the same order)", e.ImportanceAgreement},
	}
	if p := e.Propensity; p != nil {
		figures = append(figures, figure{"propensity score pMSE (0 cannot be told apart)", &p.PMSE}, figure{fmt.Sprintf("its ratio to Snoke's expectation (%.2g for rows of the same distribution)", p.RatioOfEqual), &p.Ratio})
	}
	first := true
	for _, x := range figures {
		if x.value != nil {
			if first {
				fmt.Fprintln(w)
			}
			first = false
			fmt.Fprintf(w, "%s\t%.4g\n", x.name, *x.value)
		}
	}
	if len(e.Columns) > 0 {
		section("columns\tsimilarity\tmeasure\tempty cells\tWasserstein distance")
		for _, c := range e.Columns {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%s\n", c.Column, number(c.Score), c.Measure, c.MissingSimilarity, number(c.Wasserstein))
		}
	}
	if mean, worst, n := pairSummary(e.Pairs); n > 0 {
		section("pairs of columns\tmean similarity\tworst\tof")
		fmt.Fprintf(w, "%d\t%.3f\t%s\t%s and %s\n", n, mean, number(worst.Score), worst.Columns[0], worst.Columns[1])
	}
	if len(e.Marginals) > 0 {
		section("distance of joint distributions (0 is the same)\tmean\tworst\tof")
		for _, m := range e.Marginals {
			fmt.Fprintf(w, "%d columns, %d sets\t%.3f\t%.3f\t%s\n", m.Ways, m.Sets, m.Mean, m.Worst, strings.Join(m.Widest, ", "))
		}
	}
	if len(e.Regression) > 0 {
		section("linear regression of\tRMSE after real rows\tafter synthetic rows\tmean squared difference of coefficients")
		for _, r := range e.Regression {
			fmt.Fprintf(w, "%s\t%s\t%.4g\t%s\n", r.Column, anySize(r.RMSEReal), r.RMSESynthetic, anySize(r.BetaMSE))
		}
	}
	if i := e.Images; i != nil {
		section("images\treal\tsynthetic\tcoin flips")
		fmt.Fprintf(w, "accuracy on real test images of a classifier trained on\t%.4f\t%.4f\t%s\n", i.AccuracyReal, i.AccuracySynthetic, number(i.AccuracyCoinFlips))
		fmt.Fprintf(w, "classifier score (not the Inception network's)\t%.3f\t%.3f\t%s\n", i.ScoreReal, i.ScoreSynthetic, number(i.ScoreCoinFlips))
		fmt.Fprintf(w, "Fréchet distance of a classifier's features (not the Inception network's)\t\t%.3f\t%s\n", i.FrechetDistance, number(i.FrechetCoinFlips))
	}
	if c := e.Closeness; c != nil {
		section("closeness to real rows\ttraining rows\ttest rows")
		fmt.Fprintf(w, "synthetic rows that equal one\t%.4f\t%.4f\n", c.CopiesTrain, c.CopiesTest)
		fmt.Fprintf(w, "median distance to the closest\t%.4g\t%.4g\n", c.DistanceTrain, c.DistanceTest)
		fmt.Fprintf(w, "synthetic rows closer to a training row (0.5 is ideal)\t%.3f\n", c.CloserToTrain)
		fmt.Fprintf(w, "membership attack, AUROC (0.5 is guessing)\t%.3f\n", c.MembershipAUROC)
	}
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

func ranking(r *evaluate.Ranking) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f (%.3f)", r.AUROC, r.AveragePrecision)
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

// anySize writes a number of any size, which three decimals may show as 0.
func anySize(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *v)
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
