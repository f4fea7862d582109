package results

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/baseline"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

// utilityOf picks what a run prints at its end. NOT PRIVATE.
func utilityOf(e *evaluate.Evaluation) []UtilityResult {
	if e == nil {
		return nil
	}
	if e.Images != nil {
		return []UtilityResult{imageUtility(e)}
	}
	var list []UtilityResult
	for _, m := range e.Utility {
		if m.B == nil {
			continue
		}
		r := UtilityResult{Classifier: m.Model, SyntheticAUROC: &m.B.AUROC}
		if m.A != nil {
			r.RealAUROC = &m.A.AUROC
		}
		list = append(list, r)
	}
	return list
}

// fillPage adds what a report shows about the synthetic table and, if there are real rows, the comparison with
// them. NOT PRIVATE in that case.
func fillPage(ctx context.Context, page *report.Page, synthetic *partition.Table, real Real) error {
	page.Weights = evaluate.SummarizeWeights(synthetic.Weights())
	if synthetic.Schema().Image != nil {
		return fillImages(ctx, page, synthetic, real.Images)
	}
	var err error
	if page.Columns, err = picture.Columns(synthetic.Schema(), synthetic, real.Test); err != nil {
		return err
	}
	page.Correlations = picture.NewCorrelations(synthetic)
	page.Constraints = broken(synthetic)
	if real.Test == nil {
		page.Pairs, err = pairsOf(synthetic)
		return err
	}
	if real.HeldOut > 0 {
		page.Evaluation = compareHeldOut(ctx, synthetic, real)
		return ctx.Err()
	}
	e, err := compare(ctx, synthetic, real)
	if err != nil {
		return fmt.Errorf("compare with real rows: %w", err)
	}
	page.Evaluation = e
	return nil
}

// pairsOf measures how two columns of synthetic rows are related. A table of many columns has too many pairs for a
// file.
func pairsOf(synthetic *partition.Table) ([]evaluate.PairTrend, error) {
	const most = 45 // columns: a thousand pairs
	if len(synthetic.Schema().Columns) > most {
		return nil, nil
	}
	pairs, _, err := evaluate.ComparePairs(synthetic, synthetic, synthetic.Weights(), 1)
	for i := range pairs {
		// A comparison with itself has no score, and the real side, which has no weights, means nothing.
		pairs[i].Score, pairs[i].Real = nil, pairs[i].Synthetic
		if a := pairs[i].Association; a != nil {
			a.Real = a.Synthetic
		}
	}
	return pairs, err
}

// compareHeldOut compares with rows that the run itself held out. A small or unusual sample of them does not fail
// the run; a note says that it was too small.
func compareHeldOut(ctx context.Context, synthetic *partition.Table, real Real) *evaluate.Evaluation {
	e, err := compare(ctx, synthetic, real)
	if err != nil {
		e = &evaluate.Evaluation{
			Rows:  evaluate.Rows{Synthetic: synthetic.Len(), Test: real.Test.Len(), Train: real.Train.Len()},
			Notes: []string{fmt.Sprintf("The comparison failed: %v.", err)},
		}
	}
	e.Notes = append([]string{fmt.Sprintf("The real test rows belong to %s of the privacy units, which the run held "+
		"out: a hash with a public key selected whole units, and no site trained on them. Set evaluate.test in "+
		"run.yaml to use other rows.", text.Percent(real.HeldOut))}, e.Notes...)
	return e
}

// compare measures synthetic rows against real ones and baselines.
func compare(ctx context.Context, synthetic *partition.Table, real Real) (*evaluate.Evaluation, error) {
	in := evaluate.Input{
		Synthetic: synthetic, Test: real.Test, Train: real.Train, CoinFlips: real.CoinFlips, Models: real.Models,
	}
	e, err := evaluate.Evaluate(ctx, in)
	if err != nil {
		return nil, err
	}
	return e, baseline.Add(ctx, e, in)
}

// broken counts the rows that break each constraint of their schema.
func broken(t *partition.Table) *report.Constraints {
	constraints := t.Schema().Constraints()
	c := &report.Constraints{Broken: make([]int, len(constraints))}
	for row := range t.Len() {
		for i := range constraints {
			if constraints[i].Breaks(t.Cells(row)) {
				c.Broken[i]++
			}
		}
	}
	return c
}

// writeReports writes the page and its two plainer versions.
func writeReports(out map[string]string, page report.Page, mode fs.FileMode) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer, report.Page) error
	}{{"report", report.WriteHTML}, {"report_md", report.WriteMarkdown}, {"report_json", report.WriteJSON}} {
		if err := writeFile(out[f.name], mode, func(b *bytes.Buffer) error { return f.write(b, page) }); err != nil {
			return err
		}
	}
	return nil
}
