package evaluate

import (
	"slices"

	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/internal/evaluate/weighted"
)

// Weights summarizes the importance weights of synthetic rows. It depends only on them, and is as private as
// they are.
type Weights struct {
	// EffectiveSampleSize is the number of rows of equal weight that are worth as much (Kish 1965): the squared
	// sum of the weights over the sum of their squares.
	EffectiveSampleSize float64 `json:"effective_sample_size"`
	Largest             float64 `json:"largest"` // in units of the mean
	Zero                int     `json:"zero"`    // rows of weight 0
}

// SummarizeWeights returns nil if weights are nil, or if measure.CheckWeights refuses them.
func SummarizeWeights(weight []float64) *Weights {
	if len(weight) == 0 || measure.CheckWeights(len(weight), weight) != nil {
		return nil
	}
	w := &Weights{EffectiveSampleSize: weighted.EffectiveSize(weight)}
	largest, total := slices.Max(weight), 0.0
	for _, v := range weight {
		total += v / largest
		if v == 0 {
			w.Zero++
		}
	}
	w.Largest = float64(len(weight)) / total
	return w
}
