package results

import (
	"bytes"
	"context"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// notPrivateName is the file name, without extension, of rows that real rows shaped or weighted. They are not
// named like a release, and have no certificate.
const notPrivateName = "NOT-PRIVATE."

// Compare writes the results of a run that is not marked private: rows for comparison, and their figures. There
// is no certificate, and nothing to publish.
func (r *Release) Compare(ctx context.Context) (*Result, error) {
	synthetic, err := r.rows()
	if err != nil {
		return nil, err
	}
	out := map[string]string{"not_private": filepath.Join(r.Out, notPrivateName+r.Form),
		"model": filepath.Join(r.Out, "model")}
	if err := r.Model.Save(out["model"]); err != nil {
		return nil, err
	}
	write := func(b *bytes.Buffer) error { return tabular.Write(b, r.Form, synthetic, r.Made.Weights) }
	if err := writeFile(out["not_private"], private, write); err != nil {
		return nil, err
	}
	var page report.Page
	if err := fillPage(ctx, &page, synthetic, r.Real); err != nil {
		return nil, err
	}
	return &Result{
		Name: r.Run, Pipeline: r.Of.Pipeline,
		Protection: Protection{
			Epsilon: r.Epsilon, Delta: r.Delta, Guarantee: "none: " + notPrivate, EpsilonSpent: r.Learned.Spent,
		},
		Asked: Asked{Rounds: len(r.Learned.Receipts), Teachers: r.Of.Teachers},
		Rows:  synthetic.Len(), Outputs: out, Utility: utilityOf(page.Evaluation), NotPrivate: true,
		Notes: r.Made.Notes, Figures: r.Made.Figures, HeldOut: r.Real.HeldOut,
	}, nil
}

// notPrivate marks such rows.
const notPrivate = "NOT PRIVATE"
