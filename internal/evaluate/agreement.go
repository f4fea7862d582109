package evaluate

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition"
)

// RankingAgreement is the synthetic ranking agreement of models: the share of pairs whose order by AUROC is the
// same in setting A (real rows only) and in setting C (synthetic rows only); see measure.RankingAgreement for
// its source and for ties. Models without both settings are left out. With fewer than two models the result is
// nil, with a note.
func RankingAgreement(models []ModelUtility) (*float64, []string) {
	var a, c []float64
	for _, m := range models {
		if m.A != nil && m.C != nil {
			a, c = append(a, m.A.AUROC), append(c, m.C.AUROC)
		}
	}
	share, err := measure.RankingAgreement(a, c)
	if err != nil {
		return nil, []string{fmt.Sprintf("the ranking of models was not compared: %v", err)}
	}
	return &share, nil
}

// CompareImportance returns the share of pairs of columns whose order by importance for the label is the same
// in both tables (the agreed ranking probability). A column's importance is the multiple correlation of the
// label (1 for the positive class, 0 for others, or the number) with the column alone. For a number without
// empty cells this is the absolute value of Pearson's correlation, for a category the correlation ratio. A
// constant column has importance 0. Of a column with more than 500 categories, those that are most frequent in the
// real table count, and all others as one. weight are the weights of the synthetic rows, nil for 1 each.
//
// The result is nil, with a note, if the label is missing, cannot be ranked or is constant in a table, or if
// there are fewer than two other columns. It fails for tables without rows or with different columns, and with
// ErrWeights. NOT PRIVATE.
func CompareImportance(real, synthetic *partition.Table, weight []float64) (*float64, []string, error) {
	weight, err := checkTables(real, synthetic, weight)
	if err != nil {
		return nil, nil, fmt.Errorf("importance of columns: %w", err)
	}
	none := func(why string) (*float64, []string, error) {
		return nil, []string{"the importance of columns was not compared: " + why}, nil
	}
	schema := real.Schema()
	label := schema.LabelColumn()
	if label < 0 || !isNumber(&schema.Columns[label]) && schema.Positive() < 0 {
		return none("the schema has no label that is a number or has a positive class")
	}
	kept := newCoarse(real)
	var r, s []float64
	for _, j := range dataColumns(schema) {
		if j == label {
			continue
		}
		a, okA := importance(real, kept, j, label, nil)
		b, okB := importance(synthetic, kept, j, label, weight)
		if !okA || !okB {
			return none("the label is the same in all rows of a table")
		}
		r, s = append(r, a), append(s, b)
	}
	share, err := measure.RankingAgreement(r, s)
	if err != nil {
		return none(err.Error())
	}
	return &share, nil, nil
}

// importance is the multiple correlation of the label with column j; false if the label is constant.
func importance(t *partition.Table, kept *coarse, j, label int, weight []float64) (float64, bool) {
	schema := t.Schema()
	target := make([]float64, t.Len())
	w := make([]float64, t.Len())
	mean, total := 0.0, 0.0
	for i := range target {
		target[i], w[i] = labelValue(schema, label, t.Cells(i)[label]), 1
		if weight != nil {
			w[i] = weight[i]
		}
		if math.IsNaN(target[i]) {
			target[i], w[i] = 0, 0
		}
		mean += w[i] * target[i]
		total += w[i]
	}
	mean /= total
	all := 0.0
	for i, v := range target {
		all += w[i] * (v - mean) * (v - mean)
	}
	if !(all > 1e-12*total*math.Max(1, mean*mean)) {
		return 0, false
	}
	d := newDesign(schema, []int{j}, kept)
	rows := d.rows(t)
	beta := leastSquares(rows, target, w)
	explained := 0.0
	for i := range target {
		fit := rows.dot(i, beta) - mean
		explained += w[i] * fit * fit
	}
	return math.Sqrt(min(explained/all, 1)), true
}

// labelValue is a number's position in its public range, or 1 for the positive class and 0 for others.
func labelValue(schema *partition.Schema, label int, cell float64) float64 {
	c := &schema.Columns[label]
	switch {
	case math.IsNaN(cell):
		return cell
	case isNumber(c):
		return place(c, cell)
	case int(cell) == schema.Positive():
		return 1
	}
	return 0
}
