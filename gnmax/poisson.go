package gnmax

import (
	"fmt"
	"math"
)

// Rate is the probability that a privacy unit is in a Poisson sample. [NewRate] makes it.
type Rate struct {
	rate float64
	// below holds floor(rate 2^64), 0 for a rate of 1.
	below uint64
}

// NewRate accepts numbers from 2^-64 to 1; the error for others matches [ErrParameter].
func NewRate(rate float64) (Rate, error) {
	if !(rate >= 0x1p-64 && rate <= 1) {
		return Rate{}, parameterErrorf("sampling rate is %v; it must be the probability of a unit to be in the "+
			"sample, from 2^-64 to 1", rate)
	}
	if rate == 1 {
		return Rate{rate: 1}, nil
	}
	return Rate{rate: rate, below: uint64(math.Ldexp(rate, 64))}, nil
}

// Float returns the number that Rate was made from.
func (r Rate) Float() float64 { return r.rate }

// PoissonSample appends a sample of the numbers 0 to n-1 to dst. Each number is in it independently, with the
// probability of the rate rounded down to a multiple of 2^-64. A charge for the rate is therefore enough: a smaller
// rate costs less, because it is a sample of the sample. Both the members and the size of the sample are private.
func (s *Source) PoissonSample(dst []int, n int, r Rate) ([]int, error) {
	if r.rate == 0 {
		return nil, errZeroParameter
	}
	if r.rate == 1 {
		for i := range n {
			dst = append(dst, i)
		}
		return dst, nil
	}
	at, i := len(dst), 0
	var none [1]int64
	err := s.fillAlone(none[:], func(d *draws) int64 {
		for ; i < n; i++ {
			if d.word() < r.below {
				dst = append(dst, i)
			}
		}
		return 0
	})
	if err != nil {
		return dst[:at], fmt.Errorf("draw a sample: %w", err) // a broken source gives no sample
	}
	return dst, nil
}
