package classify

import (
	"fmt"
	"math"
)

// smoothing is the part of the largest variance of a feature that is added to all
// variances, as in scikit-learn.
const smoothing = 1e-9

// leastSpread keeps the square of the largest feature, over a variance, finite.
const leastSpread = 1e-80

// GaussianBayes is naive Bayes with features that are normal within each class:
// GaussianNB of scikit-learn.
type GaussianBayes struct {
	prior          float64 // log odds
	mean, variance [2][]float64
}

// NewGaussianBayes returns Gaussian naive Bayes.
func NewGaussianBayes() *GaussianBayes { return &GaussianBayes{} }

// Name is "gaussian naive bayes".
func (*GaussianBayes) Name() string { return "gaussian naive bayes" }

// Fit takes each class's mean and variance (divisor: its weight) of each feature.
func (g *GaussianBayes) Fit(r Rows) error {
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("gaussian naive bayes: %w", err)
	}
	g.prior = t.logOdds()
	weight := [2]float64{t.neg, t.pos}
	for c := range 2 {
		g.mean[c], g.variance[c] = make([]float64, t.x.Cols), make([]float64, t.x.Cols)
	}
	for i, w := range t.weight {
		c := int(t.label[i])
		for j, v := range t.x.Row(i) {
			g.mean[c][j] += w / weight[c] * v
		}
	}
	for i, w := range t.weight {
		c := int(t.label[i])
		for j, v := range t.x.Row(i) {
			d := v - g.mean[c][j]
			g.variance[c][j] += w / weight[c] * (d * d)
		}
	}
	// A feature that is constant in a class would otherwise decide everything.
	largest := 0.0
	for j := range t.x.Cols {
		apart := g.mean[1][j] - g.mean[0][j]
		p := t.pos / t.total
		variance := p*g.variance[1][j] + (1-p)*g.variance[0][j] + p*(1-p)*apart*apart
		if !t.constant(j) { // whose variance is a matter of rounding
			largest = math.Max(largest, variance)
		}
	}
	if largest == 0 {
		largest = 1 // all features are constant
	}
	largest = math.Max(largest, leastSpread)
	for c := range 2 {
		for j := range g.variance[c] {
			g.variance[c][j] += smoothing * largest
		}
	}
	return nil
}

// Score gives the log odds of the positive class.
func (g *GaussianBayes) Score(x Matrix) ([]float64, error) {
	if err := checkScoring(len(g.mean[0]), x); err != nil {
		return nil, fmt.Errorf("gaussian naive bayes: %w", err)
	}
	scores := make([]float64, x.Rows)
	for i := range scores {
		z := g.prior
		for j, v := range x.Row(i) {
			z += logNormal(v, g.mean[1][j], g.variance[1][j]) - logNormal(v, g.mean[0][j], g.variance[0][j])
		}
		scores[i] = z
	}
	return scores, nil
}

// logNormal is the logarithm of the normal density times the root of 2 pi.
func logNormal(v, mean, variance float64) float64 {
	d := v - mean
	return -(math.Log(variance) + d*d/variance) / 2
}
