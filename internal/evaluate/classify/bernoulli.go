package classify

import (
	"fmt"
	"math"
)

// BernoulliBayes is naive Bayes with features that are above their mean or not:
// BernoulliNB of scikit-learn with its default alpha of 1 on standardized features.
// Flags of 0 and 1 stay what they are.
type BernoulliBayes struct {
	mean []float64
	// Log odds of the positive class: of both classes, and what is added for a
	// feature not above, and above its mean.
	prior        float64
	below, above []float64
}

// NewBernoulliBayes returns Bernoulli naive Bayes.
func NewBernoulliBayes() *BernoulliBayes { return &BernoulliBayes{} }

// Name is "bernoulli naive bayes".
func (*BernoulliBayes) Name() string { return "bernoulli naive bayes" }

// Fit counts, by weight, the rows of each class that are above the mean. One row of
// each kind is added (Laplace's rule).
func (b *BernoulliBayes) Fit(r Rows) error {
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("bernoulli naive bayes: %w", err)
	}
	mean, _ := t.standardization()
	for j := range mean {
		if t.constant(j) {
			mean[j] = t.x.Row(0)[j] // which rounding may have missed
		}
	}
	counts := [2][]float64{make([]float64, t.x.Cols), make([]float64, t.x.Cols)}
	for i, w := range t.weight {
		count := counts[int(t.label[i])]
		for j, v := range t.x.Row(i) {
			if v > mean[j] {
				count[j] += w
			}
		}
	}
	b.mean, b.prior = mean, t.logOdds()
	b.below, b.above = make([]float64, t.x.Cols), make([]float64, t.x.Cols)
	for j := range mean {
		p := (counts[1][j] + 1) / (t.pos + 2)
		q := (counts[0][j] + 1) / (t.neg + 2)
		b.above[j] = math.Log(p / q)
		b.below[j] = math.Log((1 - p) / (1 - q))
	}
	return nil
}

// constant says whether a column holds one value only.
func (t training) constant(j int) bool {
	for i := range t.x.Rows {
		if t.x.Row(i)[j] != t.x.Row(0)[j] {
			return false
		}
	}
	return true
}

// Score gives the log odds of the positive class.
func (b *BernoulliBayes) Score(x Matrix) ([]float64, error) {
	if err := checkScoring(len(b.mean), x); err != nil {
		return nil, fmt.Errorf("bernoulli naive bayes: %w", err)
	}
	scores := make([]float64, x.Rows)
	for i := range scores {
		z := b.prior
		for j, v := range x.Row(i) {
			if v > b.mean[j] {
				z += b.above[j]
			} else {
				z += b.below[j]
			}
		}
		scores[i] = z
	}
	return scores, nil
}
