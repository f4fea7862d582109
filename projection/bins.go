package projection

import (
	"fmt"
	"math"
)

// Discretize writes the bin of each projected number to bins, of equal length. A bin
// holds its lower end and not its upper one, but for the last, which holds both; what
// lies beyond the clip is in the first or the last bin, and so is infinity. NaN, which a
// diverged teacher has, is in the bin of 0: a vote that says nothing and that
// costs what every vote costs.
func (p *Projection) Discretize(bins []uint8, projected []float32) {
	if len(bins) != len(projected) {
		panic(fmt.Sprintf("projection: room for %d bins of %d numbers", len(bins), len(projected)))
	}
	width := 2 * p.spec.Clip / float64(p.spec.Bins)
	for i, v := range projected {
		at := math.Floor((float64(v) + p.spec.Clip) / width)
		switch {
		case at != at:
			bins[i] = uint8(p.spec.Bins / 2)
		case at < 0:
			bins[i] = 0
		case at >= float64(p.spec.Bins):
			bins[i] = uint8(p.spec.Bins - 1)
		default:
			bins[i] = uint8(at)
		}
	}
}

// Midpoint returns the middle of a bin, which stands for all that it holds.
func (p *Projection) Midpoint(bin int) float32 {
	return float32(p.spec.Clip * (float64(2*bin+1)/float64(p.spec.Bins) - 1))
}

// Mean returns the mean of the midpoints, weighted by what a noisy histogram of a
// direction released for its bins, and false where the noise left no positive sum: then
// nothing was learned. Negative counts, which only noise makes, are 0. This is
// post-processing of the release.
func (p *Projection) Mean(counts []float64) (float32, bool) {
	if len(counts) != p.spec.Bins {
		panic(fmt.Sprintf("projection: %d counts of %d bins", len(counts), p.spec.Bins))
	}
	var sum, weighted float64
	for bin, c := range counts {
		if c > 0 {
			sum += c
			weighted += c * float64(p.Midpoint(bin))
		}
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return 0, false
	}
	return float32(weighted / sum), true
}
