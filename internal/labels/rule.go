package labels

import "math"

// ManyColumns is from how many columns on a wide table needs a rule, and a rule more of the budget. Classifiers gained
// with 617 columns, and nothing with 178.
const ManyColumns = 400

// Rule gives the probabilities of classes: those of a logistic regression on unit vectors.
type Rule struct {
	*Scaling
	// Weights has shape [classes, Width]. Offsets has one number for each class.
	Weights, Offsets []float32
}

// Classes is the number of classes.
func (r *Rule) Classes() int { return len(r.Offsets) }

// Shares writes the probabilities of all classes for a unit vector to shares: the softmax of offset plus weights times
// vector.
func (r *Rule) Shares(shares, z []float64) {
	most := math.Inf(-1)
	for c := range shares {
		odds := float64(r.Offsets[c])
		for j, w := range r.Weights[c*len(z) : (c+1)*len(z)] {
			odds += float64(w) * z[j]
		}
		shares[c], most = odds, max(most, odds)
	}
	var sum float64
	for c, odds := range shares {
		shares[c] = math.Exp(odds - most)
		sum += shares[c]
	}
	for c := range shares {
		shares[c] /= sum
	}
}
