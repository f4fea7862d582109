package ratio

import "math"

// Weights are the exponentials of [LogWeights].
func Weights(beta, x []float64, noise Noise) ([]float64, error) {
	weights, err := LogWeights(beta, x, noise)
	for row, l := range weights {
		weights[row] = math.Exp(l)
	}
	return weights, err
}
