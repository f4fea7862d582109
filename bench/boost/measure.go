package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/bench/stages"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
)

// models are those of the paper's prediction task.
var models = []string{"logistic regression", "random forest", "gradient boosting"}

// titanic measures models that were trained on rows, on real test rows: accuracy, area
// under the ROC curve, and under the precision-recall curve, interpolated as the authors'.
var titanic = &stages.Measure{
	Names: []string{
		"logistic accuracy", "logistic ROC", "logistic PR", "forest accuracy", "forest ROC", "forest PR",
		"boosting accuracy", "boosting ROC", "boosting PR",
	},
	Of: func(ctx context.Context, d *stages.Dataset, rows *stages.Table) ([]float64, error) {
		chosen, err := classify.Named(models...)
		if err != nil {
			return nil, err
		}
		all, err := evaluate.TrainTest(ctx, rows, d.Test, chosen...)
		if errors.Is(err, evaluate.ErrOneClass) {
			return oneClass(d, rows), nil
		}
		if err != nil {
			return nil, err
		}
		var figures []float64
		for _, u := range all {
			figures = append(figures, u.Accuracy, u.AUROC, u.InterpolatedPrecision)
		}
		return figures, nil
	},
}

// oneClass are the figures of models that have seen one class only: all guess alike.
func oneClass(d *stages.Dataset, rows *stages.Table) []float64 {
	positive, right := 0.0, 0.0
	for i := range d.Test.Len() {
		if d.Test.Label(i) == d.Test.Schema().Positive() {
			positive++
		}
		if d.Test.Label(i) == rows.Label(0) {
			right++
		}
	}
	n := float64(d.Test.Len())
	var figures []float64
	for range models {
		figures = append(figures, right/n, 0.5, positive/n)
	}
	return figures
}

// compared is how many rows of either table the propensity scores are of, as the authors'.
const compared = 3000

// permutations give the expectation of trees; the authors' program takes more, which moves it
// little and takes long.
const permutations = 5

// census measures how well rows can be told from real test rows, by a logistic regression
// of main effects and by a tree, in units of what chance would give, and the shares of race.
var census = &stages.Measure{
	Names: []string{"pMSE ratio, logit", "pMSE ratio, tree", "total variation of race"},
	Of: func(_ context.Context, d *stages.Dataset, rows *stages.Table) ([]float64, error) {
		real, made := some(d.Test), some(rows)
		logit, _, err := evaluate.ComparePropensity(real, made, made.Weights())
		if err != nil {
			return nil, err
		}
		if logit == nil {
			return nil, errors.New("no propensity scores: there is nothing to tell rows by")
		}
		tree, err := evaluate.ComparePropensityTree(real, made, made.Weights(), evaluate.PropensityTreeOptions{Permutations: permutations, Seed: 1})
		if err != nil {
			return nil, err
		}
		race, err := evaluate.ColumnTotalVariation(d.Test, rows, rows.Weights(), "race")
		return []float64{logit.Ratio, tree.Ratio, race}, err
	},
}

// some draws rows to compare.
func some(t *stages.Table) *stages.Table {
	if t.Len() <= compared {
		return t
	}
	return t.Subset(rand.New(rand.NewPCG(1, 0xb0)).Perm(t.Len())[:compared])
}
