package main

import (
	"context"
	"errors"

	"github.com/conclave-dp/conclave/bench/stages"
	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/evaluate/weighted"
)

// classes measures weighted rows with classes: how far they are from real test rows, how
// far the label's coefficients are from those of the real training rows, and a network.
var classes = &stages.Measure{
	Names: []string{"Wasserstein, columns", "Wasserstein, rows", "beta MSE", "MLP ROC-AUC", "effective share"},
	Of: func(ctx context.Context, d *stages.Dataset, rows *stages.Table) ([]float64, error) {
		t, share, err := apart(d, rows)
		if err != nil {
			return nil, err
		}
		beta, err := evaluate.LabelBetaMSE(d.Train, rows, rows.Weights())
		if err != nil {
			return nil, err
		}
		auc := 0.5 // of rows of one class: all guess alike
		all, err := evaluate.TrainTest(ctx, rows, d.Test, classify.NewMLP(classify.MLPOptions{}))
		if err == nil {
			auc = all[0].AUROC
		} else if !errors.Is(err, evaluate.ErrOneClass) {
			return nil, err
		}
		return []float64{t.Columns, t.Joint, beta, auc, share}, nil
	},
}

// numbers measures weighted rows whose label is a number.
var numbers = &stages.Measure{
	Names: []string{"Wasserstein, columns", "Wasserstein, rows", "beta MSE", "MLP RMSE", "linear RMSE", "effective share"},
	Of: func(ctx context.Context, d *stages.Dataset, rows *stages.Table) ([]float64, error) {
		t, share, err := apart(d, rows)
		if err != nil {
			return nil, err
		}
		schema := d.Train.Schema()
		label := schema.Columns[schema.LabelColumn()].Name
		linear, _, err := evaluate.CompareRegressions(d.Train, d.Test, rows, rows.Weights(), []string{label})
		if err != nil {
			return nil, err
		}
		if len(linear) == 0 || linear[0].BetaMSE == nil {
			return nil, errors.New("no regression could be fitted")
		}
		network, err := evaluate.CompareRegressors(ctx, nil, d.Test, rows, rows.Weights(), label, classify.NewMLPRegression(classify.MLPOptions{}))
		if err != nil {
			return nil, err
		}
		return []float64{t.Columns, t.Joint, *linear[0].BetaMSE, network[0].RMSESynthetic, linear[0].RMSESynthetic, share}, nil
	},
}

// apart is how far rows are from real test rows, and what share of them their weights leave.
func apart(d *stages.Dataset, rows *stages.Table) (*evaluate.Transport, float64, error) {
	t, _, err := evaluate.CompareTransport(d.Test, rows, rows.Weights(), evaluate.TransportOptions{Rows: 400, Seed: 1})
	if err != nil {
		return nil, 0, err
	}
	share := 1.0
	if w := rows.Weights(); w != nil {
		share = weighted.EffectiveSize(w) / float64(len(w))
	}
	return t, share, nil
}
