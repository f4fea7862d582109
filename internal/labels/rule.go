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

// Odds writes the log-odds of all classes for a unit vector to odds: offset plus weights times vector.
func (r *Rule) Odds(odds, z []float64) {
	for c := range odds {
		sum := float64(r.Offsets[c])
		for j, w := range r.Weights[c*len(z) : (c+1)*len(z)] {
			sum += float64(w) * z[j]
		}
		odds[c] = sum
	}
}

// Shares turns log-odds into probabilities, in place.
func Shares(odds []float64) {
	most := math.Inf(-1)
	for _, v := range odds {
		most = max(most, v)
	}
	var sum float64
	for c, v := range odds {
		odds[c] = math.Exp(v - most)
		sum += odds[c]
	}
	for c := range odds {
		odds[c] /= sum
	}
}
