package evaluate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// CompareRegressions fits a column of numbers by least squares to the main effects of all other data columns,
// once on synthetic rows and once on real rows of train, and tests both on the real rows of test. RMSE is in
// the column's unit. Coefficients are for features and a target in units of their public range, without the
// intercept; a category is compared with the first. The coefficient of a feature that does not vary in a table
// is 0. A ridge of 1e-8 of a feature's spread makes them unique.
//
// columns names the targets; nil means the schema's label if it is a number, else none. Rows whose target is
// empty are left out. If train is nil, the result has only the error after training on synthetic rows. weight
// are the weights of the synthetic rows, nil for 1 each.
//
// A column without values in a table is left out with a note. With more than 600 features, everything is left
// out. It fails for a test or synthetic table without rows, for different columns, for a name that is not a
// column of numbers, and with ErrWeights. NOT PRIVATE.
func CompareRegressions(train, test, synthetic *partition.Table, weight []float64,
	columns []string) (results []Regression, notes []string, err error) {
	fail := func(err error) ([]Regression, []string, error) { return nil, nil, fmt.Errorf("regression: %w", err) }
	if weight, err = checkTrained(train, test, synthetic, weight); err != nil {
		return fail(err)
	}
	schema := test.Schema()
	if label := schema.LabelColumn(); columns == nil && label >= 0 && isNumber(&schema.Columns[label]) {
		columns = []string{schema.Columns[label].Name}
	}
	for _, name := range columns {
		target, err := numberColumn(schema, name)
		if err != nil {
			return fail(err)
		}
		result, note, err := regress(train, test, synthetic, weight, target)
		if err != nil {
			return fail(fmt.Errorf("column %s: %w", name, err))
		}
		if note != "" {
			notes = append(notes, fmt.Sprintf("regression of %s: %s", name, note))
		}
		if result != nil {
			results = append(results, *result)
		}
	}
	return results, notes, nil
}

// regress returns nil if there is nothing to fit to or to test on.
func regress(train, test, synthetic *partition.Table, weight []float64, target int) (result *Regression, note string,
	err error) {
	schema := test.Schema()
	d := designWithout(schema, target)
	if d.width > mostFeatures {
		return nil, fmt.Sprintf("%d features are more than the %d that are compared", d.width, mostFeatures), nil
	}
	fromSynthetic, ok := fitColumn(d, synthetic, weight, target)
	if !ok {
		return nil, "no synthetic row has a value", nil
	}
	tested, truth := d.rows(test), targets(test, target)
	result = &Regression{Column: schema.Columns[target].Name}
	result.RMSESynthetic, err = testColumn(tested, truth, fromSynthetic, &schema.Columns[target])
	if errors.Is(err, measure.ErrNoValues) {
		return nil, "no test row has a value", nil
	}
	if err != nil || train == nil {
		return result, "", err
	}
	fromReal, ok := fitColumn(d, train, nil, target)
	if !ok {
		return result, "no training row has a value", nil
	}
	rmse, err := testColumn(tested, truth, fromReal, &schema.Columns[target])
	if err != nil {
		return nil, "", err
	}
	result.RMSEReal = &rmse
	if len(fromReal) > 1 {
		beta := betaMSE(fromReal, fromSynthetic)
		result.BetaMSE = &beta
	}
	return result, "", nil
}

// checkTrained is checkTables, also for real training rows if there are any.
func checkTrained(train, test, synthetic *partition.Table, weight []float64) ([]float64, error) {
	if train != nil {
		if _, err := checkTables(train, test, nil); err != nil {
			return nil, err
		}
	}
	return checkTables(test, synthetic, weight)
}

func numberColumn(schema *partition.Schema, name string) (int, error) {
	j := schema.ColumnIndex(name)
	if j < 0 || !isNumber(&schema.Columns[j]) || schema.Columns[j].Role != partition.RoleNone {
		return 0, fmt.Errorf("%q is not a data column of numbers", name)
	}
	return j, nil
}

// designWithout has the main effects of all data columns except one.
func designWithout(schema *partition.Schema, target int) design {
	return newDesign(schema, slices.DeleteFunc(dataColumns(schema), func(j int) bool { return j == target }), nil)
}

// betaMSE is the mean squared difference of coefficients, without the intercepts.
func betaMSE(a, b []float64) float64 {
	mse := 0.0
	for j := 1; j < len(a); j++ {
		mse += (a[j] - b[j]) * (a[j] - b[j])
	}
	return mse / float64(len(a)-1)
}

// targets are the places of a column's numbers in its public range, NaN for empty
// cells.
func targets(t *partition.Table, target int) []float64 {
	y := make([]float64, t.Len())
	for i := range y {
		if y[i] = t.Cells(i)[target]; !math.IsNaN(y[i]) {
			y[i] = place(&t.Schema().Columns[target], y[i])
		}
	}
	return y
}

// fitColumn returns the coefficients, false if no row has a target and a weight.
func fitColumn(d design, t *partition.Table, weight []float64, target int) ([]float64, bool) {
	y := targets(t, target)
	w := make([]float64, len(y))
	some := false
	for i := range y {
		if math.IsNaN(y[i]) {
			y[i] = 0
			continue
		}
		if w[i] = 1; weight != nil {
			w[i] = weight[i]
		}
		some = some || w[i] > 0
	}
	if !some {
		return nil, false
	}
	return leastSquares(d.rows(t), y, w), true
}

// testColumn is the error of the coefficients in the column's unit.
func testColumn(rows *sparse, truth, beta []float64, c *partition.Column) (float64, error) {
	var y, fit []float64
	for i, v := range truth {
		if !math.IsNaN(v) {
			y, fit = append(y, v), append(fit, rows.dot(i, beta))
		}
	}
	rmse, err := measure.RMSE(y, fit, nil)
	lo, hi := c.Range()
	return rmse * (hi - lo), err
}
