package classify

import "math"

// bernoulliBayes is naive Bayes with features that are above their mean or not:
// BernoulliNB of scikit-learn with its default alpha of 1 on standardized features.
// Flags of 0 and 1 stay what they are. Counts are by weight, and one row of each kind is
// added (Laplace's rule). Scores are the log odds of the positive class.
func bernoulliBayes() *Classifier {
	return classifier("bernoulli naive bayes", 0, func(t training) (scorer, error) {
		mean, _ := t.standardization()
		for j := range mean {
			if t.constant(j) {
				mean[j] = t.x.Row(0)[j] // rounding may have missed it
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
		// The contribution to the log odds of a feature not above, and above its mean:
		below, above := make([]float64, t.x.Cols), make([]float64, t.x.Cols)
		for j := range mean {
			p := (counts[1][j] + 1) / (t.pos + 2)
			q := (counts[0][j] + 1) / (t.neg + 2)
			above[j] = math.Log(p / q)
			below[j] = math.Log((1 - p) / (1 - q))
		}
		prior := t.logOdds()
		return byRow(func(row []float64) float64 {
			z := prior
			for j, v := range row {
				if v > mean[j] {
					z += above[j]
				} else {
					z += below[j]
				}
			}
			return z
		}), nil
	})
}

// constant tells whether all values of a column are equal.
func (t training) constant(j int) bool {
	for i := range t.x.Rows {
		if t.x.Row(i)[j] != t.x.Row(0)[j] {
			return false
		}
	}
	return true
}

// smoothing is the part of the largest variance of a feature that is added to all
// variances, as in scikit-learn.
const smoothing = 1e-9

// leastSpread keeps the square of the largest feature, divided by a variance, finite.
const leastSpread = 1e-80

// gaussianBayes is naive Bayes with features that are normal within each class, by its mean
// and variance (divisor: its weight): GaussianNB of scikit-learn. Scores are the log odds of
// the positive class.
func gaussianBayes() *Classifier {
	return classifier("gaussian naive bayes", 0, func(t training) (scorer, error) {
		mean := t.centers(t.x)
		var variance [2][]float64
		for c := range 2 {
			variance[c] = make([]float64, t.x.Cols)
		}
		weight := [2]float64{t.neg, t.pos}
		for i, w := range t.weight {
			c := int(t.label[i])
			for j, v := range t.x.Row(i) {
				d := v - mean[c][j]
				variance[c][j] += w / weight[c] * (d * d)
			}
		}
		// A feature that is constant in a class would otherwise decide everything.
		largest := 0.0
		for j := range t.x.Cols {
			apart := mean[1][j] - mean[0][j]
			p := t.pos / t.total
			whole := p*variance[1][j] + (1-p)*variance[0][j] + p*(1-p)*apart*apart
			if !t.constant(j) { // its variance is a rounding error
				largest = math.Max(largest, whole)
			}
		}
		if largest == 0 {
			largest = 1 // all features are constant
		}
		largest = math.Max(largest, leastSpread)
		for c := range 2 {
			for j := range variance[c] {
				variance[c][j] += smoothing * largest
			}
		}
		prior := t.logOdds()
		return byRow(func(row []float64) float64 {
			z := prior
			for j, v := range row {
				z += logNormal(v, mean[1][j], variance[1][j]) - logNormal(v, mean[0][j], variance[0][j])
			}
			return z
		}), nil
	})
}

// logNormal is the logarithm of the normal density, without the factor 1/sqrt(2 pi).
func logNormal(v, mean, variance float64) float64 {
	d := v - mean
	return -(math.Log(variance) + d*d/variance) / 2
}
