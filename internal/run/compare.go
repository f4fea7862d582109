package run

import (
	"bytes"
	"context"
	"path/filepath"
	"time"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// notPrivateFile holds rows that are made or weighted by real ones. It is not named as a
// release is, and has no certificate beside it.
const notPrivateFile = "NOT-PRIVATE.csv"

// compare writes what a run leaves that is not marked private: rows for comparison, and what
// they are worth. There is no certificate, and nothing to give away.
func (j *Job) compare(ctx context.Context, model *pipeline.Model, trained trainer, synthetic *partition.Table, made *made, o Options) (*Result, error) {
	s := j.Spec
	out := map[string]string{"not_private": filepath.Join(o.Out, notPrivateFile), "model": filepath.Join(o.Out, "model")}
	if err := model.Save(out["model"]); err != nil {
		return nil, err
	}
	if err := writeFile(out["not_private"], func(b *bytes.Buffer) error { return tabular.WriteWeightedCSV(b, synthetic, made.weights) }); err != nil {
		return nil, err
	}
	var page report.Page
	if err := fillPage(ctx, &page, synthetic, j.real); err != nil {
		return nil, err
	}
	notes := trained.Notes()
	return &Result{
		Name: s.Name, Pipeline: s.Pipeline, Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta, Guarantee: "none: " + notPrivate,
		EpsilonSpent: notes.Spent, Rounds: len(notes.Receipts), Teachers: s.Teachers, Rows: synthetic.Len(), Outputs: out,
		Utility: utilityOf(page.Evaluation), NotPrivate: true, Notes: made.notes, WallSeconds: time.Since(o.Started).Seconds(),
	}, nil
}

// notPrivate is what is said of such rows.
const notPrivate = "NOT PRIVATE"
