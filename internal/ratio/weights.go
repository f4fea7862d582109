package ratio

import (
	"fmt"
	"math"
)

// LogWeights returns the logarithms of weights, which do not overflow: of exp(beta.x) for records x, shape [m,
// len(beta)], divided by the factor that noise on beta adds on average. Without noise this is the estimated
// density ratio; with noise it is an unbiased estimate of the weight without noise.
//
// The weights are not normalized: their mean is 1 as far as the regression is right. Normalizing them brings back
// a bias, of the order of the variance of the weights over the noise.
//
// Errors are [ErrShape], [ErrSpec], a [RangeError], and [ErrWeights] for values that are not finite.
func LogWeights(beta, x []float64, noise Noise) ([]float64, error) {
	d := len(beta)
	if err := noise.Validate(); err != nil {
		return nil, err
	}
	if d == 0 || len(x)%d != 0 {
		return nil, fmt.Errorf("weights: %w: %d numbers of records for %d features", ErrShape, len(x), d)
	}
	logs := make([]float64, len(x)/d)
	for row := range logs {
		record := x[row*d : (row+1)*d]
		moment, err := noise.LogMoment(row, record)
		if err != nil {
			return nil, fmt.Errorf("weights: %w", err)
		}
		logs[row] = dot(beta, record) - moment
		if math.IsNaN(logs[row]) || math.IsInf(logs[row], 0) {
			return nil, fmt.Errorf("weights: %w: that of record %d is not finite", ErrWeights, row)
		}
	}
	return logs, nil
}

// SelfNormalized returns weights with mean 1, proportional to the exponentials of logs, which must be finite.
func SelfNormalized(logs []float64) []float64 {
	if len(logs) == 0 {
		return nil
	}
	largest := math.Inf(-1)
	for _, l := range logs {
		largest = max(largest, l)
	}
	weights, sum := make([]float64, len(logs)), 0.0
	for i, l := range logs {
		weights[i] = math.Exp(l - largest)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] *= float64(len(weights)) / sum
	}
	return weights
}

// EffectiveSize is (sum w)²/(sum w²): the number of equally weighted records whose mean has the same variance
// (Kish 1965), between 1 and the number of records. Unusable weights are an [ErrWeights].
func EffectiveSize(weights []float64) (float64, error) {
	largest, err := largestWeight(weights)
	if err != nil {
		return 0, fmt.Errorf("effective size: %w", err)
	}
	sum, squares := 0.0, 0.0
	for _, w := range weights {
		sum += w / largest
		squares += square(w / largest)
	}
	return sum * sum / squares, nil
}

// Resample draws n rows with expected counts proportional to their weights, by systematic resampling (Kitagawa
// 1996): row i occurs floor(n w_i/sum) times or once more. Rows are in order. Its one random number follows from
// the seed and protects nothing: a reader who may know the weights may know the rows.
func Resample(weights []float64, n int, seed uint64) ([]int, error) {
	largest, err := largestWeight(weights)
	if err != nil {
		return nil, fmt.Errorf("resample: %w", err)
	}
	if n < 0 {
		return nil, fmt.Errorf("resample: %w: %d rows; ask for at least 1", ErrSpec, n)
	}
	sum, last := 0.0, 0
	for i, w := range weights {
		if w > 0 {
			sum += w / largest
			last = i // rounding may lead past the end
		}
	}
	rows := make([]int, 0, n)
	offset, at, below := uniform(seed), 0, weights[0]/largest
	for k := range n {
		place := (float64(k) + offset) / float64(n) * sum
		for place >= below && at < last {
			at++
			below += weights[at] / largest
		}
		rows = append(rows, at)
	}
	return rows, nil
}

// uniform is a number in [0, 1) derived from the seed by SplitMix64 (Steele, Lea, Flood 2014).
func uniform(seed uint64) float64 {
	z := seed + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) * 0x1p-53
}

func largestWeight(weights []float64) (float64, error) {
	largest := 0.0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return 0, fmt.Errorf("%w: number %d is %v; weights are finite and not negative", ErrWeights, i, w)
		}
		largest = max(largest, w)
	}
	if largest == 0 {
		return 0, fmt.Errorf("%w: none is above zero", ErrWeights)
	}
	return largest, nil
}
