package evaluate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/evaluate/weighted"
	"github.com/conclave-dp/conclave/partition"
)

// RegressorUtility measures how well a model that was trained on other rows predicts a column of numbers in
// real test rows: root mean squared errors in the column's unit.
type RegressorUtility struct {
	Column        string   `json:"column"`
	Model         string   `json:"model"`
	RMSEReal      *float64 `json:"rmse_train_real,omitempty"`
	RMSESynthetic float64  `json:"rmse_train_synthetic"`
}

// CompareRegressors trains each model on synthetic rows, and on real rows of train unless that is nil, to
// predict a column of numbers from all other data columns, and tests it on real rows of test. Without models,
// classify.Regressors() are used; their penalties are in units of public ranges. weight are the weights of the
// synthetic rows, nil for 1 each. Rows whose target is empty are left out.
//
// It fails for tables without rows or with different columns, for a name that is not a column of numbers or
// that has no values, with ErrWeights, and if ctx has ended before a model. NOT PRIVATE.
func CompareRegressors(ctx context.Context, train, test, synthetic *partition.Table, weight []float64, column string,
	models ...*classify.Regressor) ([]RegressorUtility, error) {
	fail := func(err error) ([]RegressorUtility, error) { return nil, fmt.Errorf("regressors: %w", err) }
	weight, err := checkTrained(train, test, synthetic, weight)
	if err != nil {
		return fail(err)
	}
	target, err := numberColumn(test.Schema(), column)
	if err != nil {
		return fail(err)
	}
	d := designWithout(test.Schema(), target)
	if d.width < 2 {
		return fail(fmt.Errorf("no column besides %q to predict it from", column))
	}
	// Weights of mean 1 keep the number of rows, which penalties and leaves depend on.
	if weight, err = weighted.Scale(weight, weighted.SumOfRows); err != nil {
		return fail(err)
	}
	made, exam := d.targets(synthetic, target, weight), d.targets(test, target, nil)
	var real classify.Targets
	if train != nil {
		real = d.targets(train, target, nil)
	}
	if len(models) == 0 {
		models = classify.Regressors()
	}
	var out []RegressorUtility
	for _, model := range models {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		u := RegressorUtility{Column: column, Model: model.Name()}
		if u.RMSESynthetic, err = classify.RegressionRMSE(model, made, exam); err != nil {
			return fail(fmt.Errorf("train %s on synthetic rows: %w", model.Name(), err))
		}
		if train != nil {
			rmse, err := classify.RegressionRMSE(model, real, exam)
			if err != nil {
				return fail(fmt.Errorf("train %s on real rows: %w", model.Name(), err))
			}
			u.RMSEReal = &rmse
		}
		out = append(out, u)
	}
	return out, nil
}

// dense encodes rows of a table as features, with or without the intercept.
func (d design) dense(t *partition.Table, intercept bool) classify.Matrix {
	s, first := d.rows(t), 1
	if intercept {
		first = 0
	}
	x := classify.Matrix{Rows: s.len(), Cols: d.width - first, Data: make([]float64, s.len()*(d.width-first))}
	for i := range x.Rows {
		row := x.Row(i)
		for k := s.start[i]; k < s.start[i+1]; k++ {
			if at := int(s.at[k]) - first; at >= 0 {
				row[at] = s.value[k]
			}
		}
	}
	return x
}

// targets are the rows of a table whose target is not empty.
func (d design) targets(t *partition.Table, target int, weight []float64) classify.Targets {
	var kept []int
	var y, w []float64
	for i := range t.Len() {
		v := t.Cells(i)[target]
		if math.IsNaN(v) {
			continue
		}
		kept, y = append(kept, i), append(y, v)
		if weight != nil {
			w = append(w, counted(weight[i]))
		}
	}
	return classify.Targets{X: d.dense(t.Subset(kept), false), Y: y, Weight: w}
}

// LabelBetaMSE is the mean squared difference between the coefficients of two logistic regressions, fitted to
// weighted synthetic rows and to real rows. They predict the label's positive class from the main effects of all
// other data columns. Features are positions in public ranges and indicators of all categories but the first; the
// intercept is not among the coefficients. Both regressions have the penalty of scikit-learn's default, half the
// sum of squares (C = 1); without it separable rows have no coefficients. The synthetic weights are scaled to add
// up to the number of real rows, so that the penalty counts the same on both sides.
//
// weight are the weights of the synthetic rows, nil for 1 each. It fails with ErrNoClasses, with ErrWeights, for
// tables without rows or with different columns, and for more than 600 features. NOT PRIVATE.
func LabelBetaMSE(real, synthetic *partition.Table, weight []float64) (float64, error) {
	fail := func(err error) (float64, error) { return 0, fmt.Errorf("coefficients of the label: %w", err) }
	weight, err := checkTables(real, synthetic, weight)
	if err != nil {
		return fail(err)
	}
	schema := real.Schema()
	if len(schema.Classes()) < 2 || schema.Positive() < 0 {
		return fail(ErrNoClasses)
	}
	target := schema.LabelColumn()
	d := designWithout(schema, target)
	if d.width < 2 || d.width > mostFeatures {
		return fail(fmt.Errorf("%d features: 1 to %d can be compared", d.width-1, mostFeatures))
	}
	deviation := slices.Repeat([]float64{1}, d.width)
	deviation[0] = 1e3 // the intercept, hardly penalized
	prior := weighted.NewNormal(make([]float64, d.width), deviation)
	fit := func(t *partition.Table, w []float64) ([]float64, error) {
		m := d.dense(t, true)
		var x [][]float64
		var y []bool
		for i := range m.Rows {
			x = append(x, m.Row(i))
			y = append(y, int(t.Cells(i)[target]) == schema.Positive())
		}
		p, err := prior.UpdateLogistic(x, y, w)
		if err != nil {
			return nil, err
		}
		return p.Laplace.Mean, nil
	}
	weight, err = weighted.Scale(weight, func([]float64) float64 { return float64(real.Len()) })
	if err != nil {
		return fail(err)
	}
	a, err := fit(real, nil)
	if err != nil {
		return fail(err)
	}
	b, err := fit(synthetic, weight)
	if err != nil {
		return fail(err)
	}
	return betaMSE(a, b), nil
}
