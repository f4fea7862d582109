package gnmax

import "math/bits"

// exponential draws i with probability proportional to exp(scores[i]/scale).
func (d *draws) exponential(scores []int64, scale Scale) int64 {
	largest := scores[0]
	for _, u := range scores[1:] {
		largest = max(largest, u)
	}
	n := uint64(len(scores))
	// At least one trial in n succeeds: (1-1/n)^(1024 n) is below 10^-444.
	for range 1024 * n {
		i := d.uniform(n)
		hi, lo := bits.Mul64(uint64(largest-scores[i]), scale.den)
		if d.err != nil {
			return 0
		}
		if d.bernoulliExp(hi, lo, scale.num) && d.err == nil {
			return int64(i)
		}
	}
	d.fail(errBroken)
	return 0
}
