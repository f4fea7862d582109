package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/evaluate"
	"github.com/conclave-dp/conclave/evaluate/classify"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/report"
)

// measureFunc compares a synthetic table with real ones; train may be nil. What
// it gives is NOT PRIVATE.
type measureFunc func(ctx context.Context, synthetic, test, train *partition.Table) (*evaluate.Evaluation, error)

// measure makes the evaluations of all reports.
var measure measureFunc = measureBasics

// measureBasics measures how useful the rows are for prediction and how alike
// single columns.
func measureBasics(_ context.Context, synthetic, test, train *partition.Table) (*evaluate.Evaluation, error) {
	e := &evaluate.Evaluation{Privacy: evaluate.NotPrivate, Rows: evaluate.Rows{Synthetic: synthetic.Len(), Test: test.Len()}}
	shapes, err := evaluate.ColumnShape(test, synthetic)
	if err != nil {
		return nil, err
	}
	for _, s := range shapes {
		e.Columns = append(e.Columns, evaluate.ColumnQuality{Shape: s})
	}
	measured, err := utility(synthetic, test)
	if err != nil {
		return nil, err
	}
	if measured == nil {
		e.Notes = append(e.Notes, "The rows cannot be ranked: the label has no two classes, or one of the tables holds only one of them.")
		return e, nil
	}
	var ceiling []evaluate.Utility
	if train != nil {
		e.Rows.Train = train.Len()
		if ceiling, err = utility(train, test); err != nil {
			return nil, err
		}
	}
	for i, u := range measured {
		m := evaluate.ModelUtility{Model: u.Classifier, B: &evaluate.Ranking{AUROC: u.AUROC, AveragePrecision: u.AveragePrecision}}
		if i < len(ceiling) {
			m.A = &evaluate.Ranking{AUROC: ceiling[i].AUROC, AveragePrecision: ceiling[i].AveragePrecision}
		}
		e.Utility = append(e.Utility, m)
	}
	return e, nil
}

// utility trains on one table and tests on another; nil when there is nothing
// to rank.
func utility(train, test *partition.Table) ([]evaluate.Utility, error) {
	u, err := evaluate.TrainTest(train, test, classify.Models()...)
	if errors.Is(err, evaluate.ErrOneClass) || errors.Is(err, evaluate.ErrNoClasses) {
		return nil, nil
	}
	return u, err
}

// utilityOf picks what a run prints at its end. NOT PRIVATE.
func utilityOf(e *evaluate.Evaluation) []UtilityResult {
	if e == nil {
		return nil
	}
	var list []UtilityResult
	for _, m := range e.Utility {
		if m.B == nil {
			continue
		}
		r := UtilityResult{Classifier: m.Model, SyntheticAUROC: m.B.AUROC}
		if m.A != nil {
			r.RealAUROC = &m.A.AUROC
		}
		list = append(list, r)
	}
	return list
}

// fillPage adds what a report shows of the synthetic table and, where there are
// real rows, how it compares with them. NOT PRIVATE in that case.
func fillPage(ctx context.Context, page *report.Page, synthetic *partition.Table, real realTables) error {
	var err error
	if page.Columns, err = report.Columns(synthetic.Schema(), synthetic, real.test); err != nil {
		return err
	}
	page.Correlations = report.NewCorrelations(synthetic)
	if real.test == nil {
		return nil
	}
	if page.Evaluation, err = measure(ctx, synthetic, real.test, real.train); err != nil {
		return fmt.Errorf("compare with real rows: %w", err)
	}
	return nil
}

// writeReports writes the page and its two plainer versions.
func writeReports(out map[string]string, page report.Page) error {
	if err := writeFile(out["report"], func(b *bytes.Buffer) error { return report.WriteHTML(b, page) }); err != nil {
		return err
	}
	if err := writeFile(out["report_md"], func(b *bytes.Buffer) error { return report.WriteMarkdown(b, page) }); err != nil {
		return err
	}
	return writeFile(out["report_json"], func(b *bytes.Buffer) error { return report.WriteJSON(b, page) })
}
