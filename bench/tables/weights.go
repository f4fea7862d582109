package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/evaluate/weighted"
)

// weights measures importance weights of synthetic rows, on data sets of Ghalebikesabi et al.
// (2022). See README.md.
func weights() *experiment {
	return &experiment{
		name: "weights", short: "compare every method of weighting synthetic rows with no weights",
		seeds: 5, groups: func() ([]group, error) { return weightGroups(), nil },
	}
}

// weightCases are the ways to weight. A method that learns from records takes its share of the run's budget, so
// its rows are slightly worse than those without weights; all cases cost the same.
func weightCases(pipeline string) []runCase {
	all := []runCase{
		{name: "discriminator", fields: "weights: discriminator", bare: "none"},
		{name: "logreg-noised gaussian", fields: "weights: logreg-noised"},
		{name: "logreg-noised laplace", fields: "weights: logreg-noised\nweighting: {noise: laplace}"},
		{name: "logreg-debiased laplace", fields: "weights: logreg-debiased\nweighting: {noise: laplace}",
			bare: "logreg-debiased laplace (its rows unweighted)"},
		{name: "logreg-debiased norm-gamma", fields: "weights: logreg-debiased\nweighting: {noise: norm-gamma}"},
		{name: "logreg-debiased gaussian", fields: "weights: logreg-debiased",
			bare: "logreg-debiased gaussian (its rows unweighted)"},
		{name: "dp-mlp", fields: "weights: dp-mlp", bare: "dp-mlp (its rows unweighted)"},
		{name: "logreg (NOT PRIVATE)", fields: "weights: logreg", notPrivate: true},
		{name: "mlp (NOT PRIVATE)", fields: "weights: mlp", notPrivate: true},
	}
	if pipeline == "embed" { // which has no discriminator
		all = all[1:]
		all[len(all)-1].bare = "none"
	}
	return all
}

// starts are the initial states of a generator: the default, none, or none and a third of the steps, which leaves
// a visible bias and takes a third of the time.
var starts = map[string][]struct{ name, run string }{
	"pategan": {{"warm", ""}, {"cold", "warm_start: {embed: 0}"}},
	"dpgan": {{"warm", ""}, {"cold", "warm_start: {embed: 0}"},
		{"short", "warm_start: {embed: 0}\ndpgan: {steps: 30}"}},
	"embed": {{"warm", ""}, {"short", "embed: {fit: {steps: 200}}"}},
}

// weightGroups are data sets of the paper at its two budgets, after each pipeline.
func weightGroups() (all []group) {
	for _, pipeline := range []string{"pategan", "dpgan", "embed"} {
		for _, start := range starts[pipeline] {
			for _, set := range []group{
				{name: "breast", data: "breast_cancer_wisconsin", worth: classes},
				{name: "banknote", data: "banknote", worth: classes},
				{name: "boston", data: "boston_housing", worth: numbers},
			} {
				for _, epsilon := range []float64{1, 6} {
					g := set
					g.name = fmt.Sprintf("%s-%s-%s-%g", set.name, pipeline, start.name, epsilon)
					g.pipeline, g.epsilon, g.delta, g.rows, g.teachers, g.fields = pipeline, epsilon, 1e-5, 1000, 50,
						start.run
					g.cases = weightCases(pipeline)
					if pipeline != "pategan" {
						g.teachers = 1 // they divide the records of a node, which these take together
					}
					all = append(all, g)
				}
			}
		}
	}
	return all
}

// classes measures weighted rows with classes: how far they are from real test rows, how
// far the label's coefficients are from those of the real training rows, and a network.
var classes = &measure{
	names: []string{"Wasserstein, columns", "Wasserstein, rows", "beta MSE", "MLP ROC-AUC", "effective share"},
	of: func(ctx context.Context, d *dataset, rows *table) ([]float64, error) {
		t, share, err := apart(d, rows)
		if err != nil {
			return nil, err
		}
		beta, err := evaluate.LabelBetaMSE(d.train, rows, rows.Weights())
		if err != nil {
			return nil, err
		}
		auc, err := meanAUROC(ctx, d, rows, classify.MLP())
		return []float64{t.Columns, t.Joint, beta, auc, share}, err
	},
}

var numbers = &measure{
	names: []string{"Wasserstein, columns", "Wasserstein, rows", "beta MSE", "MLP RMSE", "linear RMSE",
		"effective share", "MLP MSE, label in [0,1]"},
	of: func(ctx context.Context, d *dataset, rows *table) ([]float64, error) {
		t, share, err := apart(d, rows)
		if err != nil {
			return nil, err
		}
		schema := d.train.Schema()
		label := schema.Columns[schema.LabelColumn()].Name
		linear, _, err := evaluate.CompareRegressions(d.train, d.test, rows, rows.Weights(), []string{label})
		if err != nil {
			return nil, err
		}
		if len(linear) == 0 || linear[0].BetaMSE == nil {
			return nil, errors.New("no regression could be fitted")
		}
		network, err := evaluate.CompareRegressors(ctx, nil, d.test, rows, rows.Weights(), label,
			classify.MLPRegression())
		if err != nil {
			return nil, err
		}
		lower, upper := schema.Columns[schema.LabelColumn()].Range()
		scaled := network[0].RMSESynthetic / (upper - lower)
		return []float64{t.Columns, t.Joint, *linear[0].BetaMSE, network[0].RMSESynthetic, linear[0].RMSESynthetic,
			share, scaled * scaled}, nil
	},
}

// apart is how far rows are from real test rows, and the share of them that remains effective after weighting.
func apart(d *dataset, rows *table) (*evaluate.Transport, float64, error) {
	t, _, err := evaluate.CompareTransport(d.test, rows, rows.Weights(), evaluate.TransportOptions{Rows: 400, Seed: 1})
	if err != nil {
		return nil, 0, err
	}
	share := 1.0
	if w := rows.Weights(); w != nil {
		share = weighted.EffectiveSize(w) / float64(len(w))
	}
	return t, share, nil
}
