package projection

import (
	"fmt"
	"math"
)

// Discretize writes the bin of each projected number to bins, of equal length. A bin includes its lower end and
// excludes its upper one; the last bin includes both. Values beyond the clip, infinities too, are in the first or
// the last bin.
//
// A teacher without information sends 0, and one that diverged NaN: such a vote carries no information and costs
// as much as any other. With an even number of bins, 0 lies between two. It alternates between them over the
// numbers and over the voters, so that many uninformed teachers do not bias the result.
func (p *Projection) Discretize(bins []uint8, projected []float32, voter int) {
	if len(bins) != len(projected) {
		panic(fmt.Sprintf("projection: room for %d bins of %d numbers", len(bins), len(projected)))
	}
	width := 2 * p.spec.Clip / float64(p.spec.Bins)
	for i, v := range projected {
		at := math.Floor((float64(v) + p.spec.Clip) / width)
		switch {
		case v == 0 || at != at:
			bins[i] = uint8(p.spec.Bins / 2)
			if p.spec.Bins%2 == 0 {
				bins[i] -= uint8((i + voter) & 1)
			}
		case at < 0:
			bins[i] = 0
		case at >= float64(p.spec.Bins):
			bins[i] = uint8(p.spec.Bins - 1)
		default:
			bins[i] = uint8(at)
		}
	}
}

// Midpoint returns the middle of a bin, which represents all its values.
func (p *Projection) Midpoint(bin int) float32 {
	return float32(p.spec.Clip * (float64(2*bin+1)/float64(p.spec.Bins) - 1))
}

// Mean returns the mean of the voters' midpoints according to the noisy histogram of a direction: the sum of
// counts times midpoints over the number of voters. It is linear in the counts, so noise of mean 0 adds no bias,
// and the result may lie beyond the clip. This is post-processing of the release.
func (p *Projection) Mean(counts []float64, voters int) float32 {
	if len(counts) != p.spec.Bins || voters < 1 {
		panic(fmt.Sprintf("projection: %d counts of %d bins by %d voters", len(counts), p.spec.Bins, voters))
	}
	var sum float64
	for bin, c := range counts {
		sum += c * float64(p.Midpoint(bin))
	}
	return float32(sum / float64(voters))
}
