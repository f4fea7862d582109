package quality

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline/marginals"
)

// estimate is a number with its deviation; a deviation of 0 means no information.
type estimate struct{ mean, deviation float64 }

// weight is the inverse variance.
func (e estimate) weight() float64 {
	if e.deviation == 0 {
		return 0
	}
	return 1 / (e.deviation * e.deviation)
}

// interval is an estimate of a distance with its confidence bounds.
type interval struct{ middle, low, high float64 }

// errHidden means that the noise allows no statement.
var errHidden = errors.New("the noise is larger than the number of records")

const (
	// draws of a distance; fewer for many cells, since their sum varies less.
	mostDraws, leastDraws, drawnCells = 1000, 200, 5_000_000
	// tail is the probability left out at each end. Half of 5% would be enough if one of the truths held
	// exactly; a smaller tail covers other distributions, as the package's tests show.
	tail = 0.01
	// The number of unit counts that are tried on each side of the likeliest, and the number per deviation:
	sides, steps = 5, 2
)

// posterior is the likelihood of each truth, for several numbers of units.
type posterior struct {
	tables  []marginals.Table
	scales  []float64
	truths  []truth
	records []float64
	weights [][]float64 // shape [records, truths]
	rng     *rand.Rand
}

// newPosterior weights truths by the release. known is other information about the number of units.
func newPosterior(tables []marginals.Table, known estimate, rng *rand.Rand) (*posterior, error) {
	sum, weights, noise := known.mean*known.weight(), known.weight(), math.Inf(1)
	for _, t := range tables {
		w := 1 / (t.Noise * t.Noise * float64(len(t.Counts)))
		for _, c := range t.Counts {
			sum += w * c
		}
		weights, noise = weights+w, min(noise, t.Noise)
	}
	mean, deviation := sum/weights, 1/math.Sqrt(weights)
	if mean < 2*sides/steps*deviation {
		return nil, errHidden
	}
	scales := scalesFor(noise / mean)
	p := &posterior{tables: tables, scales: scales, truths: truthsOf(scales), rng: rng}
	largest := math.Inf(-1)
	for i := -sides; i <= sides; i++ {
		z := float64(i) / steps
		n := mean + z*deviation
		l := make(likelihoods, len(p.truths))
		for t := range tables {
			l.add(see(&tables[t], n, scales), scales)
		}
		for j := range l {
			l[j] -= z * z / 2
		}
		p.records, p.weights = append(p.records, n), append(p.weights, l)
		largest = max(largest, slices.Max(l))
	}
	for _, of := range p.weights {
		for i := range of {
			of[i] = math.Exp(of[i] - largest)
		}
	}
	return p, nil
}

// drawn draws distances and sorts them. before is the prior weight of a truth.
func (p *posterior) drawn(before func(truth) float64) (out []float64) {
	cells, sums, total := 0, make([]float64, len(p.records)), 0.0
	for _, t := range p.tables {
		cells += len(t.Counts)
	}
	rising := make([][]float64, len(p.records)) // cumulative sums of the weights
	for n, of := range p.weights {
		for i, w := range of {
			sums[n] += w * before(p.truths[i])
			rising[n] = append(rising[n], sums[n])
		}
		total += sums[n]
	}
	draws, left := min(mostDraws, max(leastDraws, drawnCells/cells)), make([]int, len(p.records))
	for range draws {
		u, n := p.rng.Float64()*total, 0
		for n < len(sums)-1 && u >= sums[n] {
			u, n = u-sums[n], n+1
		}
		left[n]++
	}
	for n, times := range left {
		if times == 0 {
			continue
		}
		var tables []*seen
		for t := range p.tables {
			tables = append(tables, see(&p.tables[t], p.records[n], p.scales))
		}
		for range times {
			i, _ := slices.BinarySearch(rising[n], p.rng.Float64()*sums[n])
			out = append(out, p.draw(tables, p.truths[min(i, len(p.truths)-1)]))
		}
	}
	slices.Sort(out)
	return out
}

// draw draws the mean distance of tables, from differences that agree with the release under a truth.
func (p *posterior) draw(tables []*seen, of truth) float64 {
	total, weights := 0.0, make([]float64, of.most-of.least+1)
	for _, s := range tables {
		differences, variances := make([]float64, len(s.differences)), make([]float64, len(s.differences))
		sum, all := 0.0, 0.0
		for c, v := range s.differences {
			tilt := 1.0
			for i := range weights {
				weights[i], tilt = tilt*s.density[c][of.least+i], tilt*of.tilt
			}
			scale := p.scales[of.least+pick(weights, p.rng)]
			variances[c] = 1 / (1/(scale*scale) + 1/(s.noise*s.noise))
			differences[c] = variances[c]*v/(s.noise*s.noise) + math.Sqrt(variances[c])*p.rng.NormFloat64()
			sum, all = sum+differences[c], all+variances[c]
		}
		distance := 0.0
		for c := range differences { // given that they add up to 0
			distance += math.Abs(differences[c]-sum*variances[c]/all) / 2
		}
		total += min(1, distance) // a distance of shares is at most 1
	}
	return total / float64(len(tables))
}

// distance estimates the mean total variation distance of tables. Errors match errHidden.
//
// If there is more noise than difference, the release says little about small differences, and the answer
// depends on the prior. The lower end uses a prior that is uniform on a logarithmic scale, which is right if
// differences are small. The upper end uses one that is uniform on the scale itself, which is right if they are
// large.
func distance(tables []marginals.Table, known estimate, rng *rand.Rand) (interval, error) {
	p, err := newPosterior(tables, known, rng)
	if err != nil {
		return interval{}, err
	}
	low := p.drawn(func(truth) float64 { return 1 })
	high := p.drawn(func(t truth) float64 { return t.scale(p.scales) })
	at := func(v []float64, share float64) float64 { return v[int(math.Round(share*float64(len(v)-1)))] }
	return interval{(at(low, 0.5) + at(high, 0.5)) / 2, at(low, tail), at(high, 1-tail)}, nil
}

// pick draws a place in proportion to weights.
func pick(weights []float64, rng *rand.Rand) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	u := rng.Float64() * sum
	for i, w := range weights {
		if u -= w; u < 0 {
			return i
		}
	}
	return len(weights) - 1
}
