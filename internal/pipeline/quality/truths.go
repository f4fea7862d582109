package quality

import (
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline/marginals"
)

// truth is a distribution of the differences between real and synthetic shares. Each is normal with the
// deviation of one of the scales from least to most. tilt is the ratio of the frequencies of a scale and the
// one below.
type truth struct {
	least, most int
	tilt        float64
}

var tilts = []float64{0.15, 0.4, 1, 2.5}

// finest is the smallest scale, in units of the noise: smaller ones look the same.
const finest = 1. / 32

// scalesFor returns the deviations that differences may have. The largest is that of shares without anything in
// common. noise is the noise of a share.
func scalesFor(noise float64) (scales []float64) {
	for scale := 0.5; len(scales) < 2 || scale > finest*noise/2; scale /= 2 {
		scales = append(scales, scale)
	}
	slices.Reverse(scales)
	return scales
}

// truthsOf lists all truths, in the order of [likelihoods.add].
func truthsOf(scales []float64) (all []truth) {
	for _, tilt := range tilts {
		for least := range scales {
			for most := least; most < len(scales); most++ {
				all = append(all, truth{least, most, tilt})
			}
		}
	}
	return all
}

// scale is the standard deviation of differences under the truth, over all its scales.
func (t truth) scale(scales []float64) float64 {
	sum, all, weight := 0.0, 0.0, 1.0
	for _, s := range scales[t.least : t.most+1] {
		sum, all, weight = sum+weight*s*s, all+weight, weight*t.tilt
	}
	return math.Sqrt(sum / all)
}

// seen is a released table, given a number of units.
type seen struct {
	// differences are the noisy differences of its cells from the synthetic shares, adjusted to add up to 0 as
	// they do without noise.
	differences []float64
	noise       float64
	// density is the density of each difference for each of the scales, shape [cells, scales].
	density [][]float64
}

// least is the smallest density that is used: products of smaller ones would underflow.
const least = 1e-100

// free is the share of the cells that are free: the last one follows from the others.
func (s *seen) free() float64 {
	return float64(len(s.differences)-1) / float64(len(s.differences))
}

func see(t *marginals.Table, records float64, scales []float64) *seen {
	s := &seen{noise: t.Noise / records}
	if len(t.Counts) < 2 {
		return s // all rows are in one cell, in both tables
	}
	sum := 0.0
	for c, count := range t.Counts {
		s.differences = append(s.differences, count/records-t.Shares[c])
		sum += s.differences[c]
	}
	for c := range s.differences {
		s.differences[c] -= sum / float64(len(s.differences))
		v, density := s.differences[c], make([]float64, len(scales))
		for i, scale := range scales {
			variance := s.free() * (scale*scale + s.noise*s.noise)
			density[i] = max(least, math.Exp(-v*v/(2*variance))/math.Sqrt(variance))
		}
		s.density = append(s.density, density)
	}
	return s
}

// likelihoods are the log-likelihoods of all truths.
type likelihoods []float64

// add adds the log-likelihoods of a table.
func (l likelihoods) add(s *seen, scales []float64) {
	if len(s.differences) == 0 {
		return
	}
	free, products := s.free(), slices.Repeat([]float64{1}, len(l))
	for _, density := range s.density {
		i := 0
		for _, tilt := range tilts {
			for from := range scales {
				sum, all, weight := 0.0, 0.0, 1.0
				for _, f := range density[from:] {
					sum, all, weight = sum+weight*f, all+weight, weight*tilt
					if products[i] *= sum / all; products[i] < least || products[i] > 1/least {
						l[i] += free * math.Log(products[i])
						products[i] = 1
					}
					i++
				}
			}
		}
	}
	for i, p := range products {
		l[i] += free * math.Log(p)
	}
}
