package results

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/report/picture"
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

// fillPage adds what a report shows of the synthetic table and, where there are
// real rows, how it compares with them. NOT PRIVATE in that case.
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
	if real.Test == nil {
		return nil
	}
	if page.Evaluation, err = evaluate.Evaluate(ctx, evaluate.Input{
		Synthetic: synthetic, Test: real.Test, Train: real.Train, CoinFlips: real.CoinFlips, Models: real.Models,
	}); err != nil {
		return fmt.Errorf("compare with real rows: %w", err)
	}
	return nil
}

// writeReports writes the page and its two plainer versions.
func writeReports(out map[string]string, page report.Page) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer, report.Page) error
	}{{"report", report.WriteHTML}, {"report_md", report.WriteMarkdown}, {"report_json", report.WriteJSON}} {
		if err := WriteFile(out[f.name], func(b *bytes.Buffer) error { return f.write(b, page) }); err != nil {
			return err
		}
	}
	return nil
}
