package gnmax

import "fmt"

// LaplaceCounts adds discrete Laplace noise of scale unit/epsilon to each count
// of a vector whose L1 norm one privacy unit changes by at most `unit`: counts
// in fixed point, where `unit` stands for 1. Charge it as
// {kind: laplace, epsilon, count: 1}.
//
// Why this is private: if count i changes by d_i, the probability of its output changes by at most exp(|d_i|
// epsilon/unit), and the |d_i| add up to at most unit (Dwork and Roth 2014, Theorem 3.6, on the integers; Ghosh,
// Roughgarden, Sundararajan 2012).
func LaplaceCounts(src *Source, counts []int64, unit int64, epsilon float64) ([]int64, error) {
	if unit <= 0 {
		return nil, parameterErrorf("unit is %d; it must be what one privacy unit adds at most, above zero", unit)
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%w: it has no counts", ErrHistogram)
	}
	scale, err := scaleFor(uint64(unit), epsilon)
	if err != nil {
		return nil, fmt.Errorf("laplace counts: %w", err)
	}
	for i, c := range counts {
		if c < -maxCount || c > maxCount {
			return nil, fmt.Errorf("%w: count %d is too large", ErrHistogram, i)
		}
	}
	return addNoise(counts, func(dst []int64) error { return src.DiscreteLaplaces(dst, scale) })
}
