package dpgan

import "math"

// leastEffective is the effective share of generated records that a tilt must leave.
const leastEffective = 0.1

// matching returns the factor at which generated records, weighted by exp(factor x score), have this mean
// score. If that factor leaves too few of them, it returns the closest one that leaves enough. The mean grows
// with the factor: its slope is the variance of the weighted scores.
func matching(scores []float64, mean float64) float64 {
	low, high := -largest(scores, -1), largest(scores, 1)
	for range 60 {
		if mid := (low + high) / 2; tiltedMean(scores, mid) < mean {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// bounded is a factor above 0, or the largest that leaves enough.
func bounded(scores []float64, factor float64) float64 {
	return math.Min(factor, largest(scores, 1))
}

// largest is the largest factor with this sign that leaves enough of the generated records: the effective share
// falls as the factor grows. It is 0 if all scores are equal.
func largest(scores []float64, sign float64) float64 {
	_, spread := moments(scores)
	if spread == 0 {
		return 0
	}
	// The search is logarithmic, in units of the spread. A score that singles out rare records needs small
	// factors. A score that splits records in halves leaves half of them at any factor.
	low, high := math.Log(1e-6), math.Log(1e2)
	for range 50 {
		if mid := (low + high) / 2; effective(scores, sign*math.Exp(mid)/spread) >= leastEffective {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp(low) / spread
}

// effective is the effective share of records weighted by exp(factor x score): the squared
// mean weight over the mean squared weight (Kish 1965).
func effective(scores []float64, factor float64) float64 {
	return math.Exp(2*logMeanExp(scores, factor) - logMeanExp(scores, 2*factor))
}

// logMeanExp is log mean exp(factor x score).
func logMeanExp(scores []float64, factor float64) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, s := range scores {
		top = math.Max(top, factor*s)
	}
	for _, s := range scores {
		sum += math.Exp(factor*s - top)
	}
	return top + math.Log(sum/float64(len(scores)))
}

// tiltedMean is the mean score of records weighted by exp(factor x score).
func tiltedMean(scores []float64, factor float64) float64 {
	level := logMeanExp(scores, factor)
	var sum float64
	for _, s := range scores {
		sum += s * math.Exp(factor*s-level)
	}
	return sum / float64(len(scores))
}

// moments returns the mean and the standard deviation, which is 0 if scores differ only by rounding.
func moments(scores []float64) (mean, spread float64) {
	for _, s := range scores {
		mean += s / float64(len(scores))
	}
	for _, s := range scores {
		spread += (s - mean) * (s - mean) / float64(len(scores))
	}
	if spread = math.Sqrt(spread); spread <= 1e-6*math.Abs(mean) {
		return mean, 0
	}
	return mean, spread
}
