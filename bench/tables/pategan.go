package main

import (
	"context"
	"errors"

	"github.com/conclave-dp/conclave/bench/figures"
	"github.com/conclave-dp/conclave/internal/evaluate"
)

// pategan measures PATE-GAN on the data sets of its paper. See docs/results.md.
func pategan() *experiment {
	return &experiment{
		name: "pategan", short: "PATE-GAN on the data sets of its paper, by twelve classifiers",
		coin: true, seeds: 3, groups: pateganGroups,
	}
}

// pateganGroups are the table of [figures.Tables], with the start that runs have by default and without one, and
// rows of the pipelines that take one sum or a few tables from the records instead of votes.
func pateganGroups() (all []group, err error) {
	t, err := figures.Find("pategan")
	for _, s := range t.Sets {
		g := group{
			data: s.Data, train: s.Train, test: s.Test, pipeline: "pategan", epsilon: t.Epsilon, delta: t.Delta,
			teachers: s.Teachers, rows: s.Rows, worth: twelve, cases: []runCase{{name: "run"}},
		}
		for _, start := range []struct{ name, fields string }{{"warm", ""}, {"cold", "warm_start: {embed: 0}"}} {
			g.name, g.fields = s.Data+"-"+start.name, start.fields
			all = append(all, g)
		}
		for _, pipeline := range []string{"embed", "marginals"} {
			g.name, g.pipeline, g.fields, g.teachers, g.alone = s.Data+"-"+pipeline, pipeline, "", 1, true
			all = append(all, g)
		}
	}
	return all, err
}

// twelve is the average over the paper's twelve classifiers.
var twelve = &measure{
	names: []string{auroc, "average precision"},
	of: func(ctx context.Context, d *dataset, rows *table) ([]float64, error) {
		r, err := figures.Average(ctx, rows, d.test)
		if errors.Is(err, evaluate.ErrOneClass) {
			return []float64{0.5, figures.Share(d.test)}, nil // all guess alike
		}
		return []float64{r.AUROC, r.AveragePrecision}, err
	},
}
