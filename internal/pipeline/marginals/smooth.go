package marginals

import (
	"math"

	"github.com/conclave-dp/conclave/partition"
)

// stands is the number of deviations from which a difference between small neighbours no longer counts as noise.
const stands = 3.5

// differs is the number of deviations from which a difference between two of n neighbouring parts no longer counts
// as noise. The largest of n differences of noise is near sqrt(2 ln n) deviations, so those of the few large parts
// need less (a universal threshold for each level, Donoho and Johnstone 1995). With few records only they show.
func differs(n int) float64 {
	return min(stands, 0.5+math.Sqrt(2*math.Log(float64(max(1, n)))))
}

// smooth removes noise from a number's fine cells where it can be recognized. If two neighbouring parts of the
// range differ by less than noise may cause, their records are spread over both evenly. This is thresholding of
// a Haar wavelet, with parts weighted by their width on the column's scale. The result is the mean over several
// positions of the parts' borders, since a single position would leave steps at the borders (Coifman and
// Donoho, "Translation-invariant de-noising", 1995).
func (c *fineColumn) smooth() {
	if !isNumber(c.of) {
		return
	}
	n := len(c.from)
	widths, sums := make([]float64, n+1), make([]float64, n+1) // of all cells before
	for i := range n {
		widths[i+1], sums[i+1] = widths[i]+c.width(i), sums[i]+c.records[i]
	}
	smoothed := make([]float64, n)
	top := 1
	for top < n {
		top *= 2
	}
	shifts := min(top, borders)
	var spread func(from, to, part, shift int, records float64)
	spread = func(from, to, part, shift int, records float64) {
		if to-from == 1 {
			smoothed[from] += records / float64(shifts)
			return
		}
		mid := from - (from+shift)%part + part
		if mid >= to {
			spread(from, to, part/2, shift, records)
			return
		}
		left, right := sums[mid]-sums[from], sums[to]-sums[mid]
		share := (widths[mid] - widths[from]) / (widths[to] - widths[from])
		// The excess of the left part over its share, and its deviation:
		more := left*(1-share) - right*share
		noise := c.noise(from, mid)*(1-share)*(1-share) + c.noise(mid, to)*share*share
		if math.Abs(more) < differs(top/part)*math.Sqrt(noise) {
			more = 0
		}
		spread(from, mid, part/2, shift, records*share+more)
		spread(mid, to, part/2, shift, records*(1-share)-more)
	}
	for shift := range shifts {
		spread(0, n, top, shift*top/shifts, sums[n])
	}
	copy(c.records, smoothed)
}

// borders is the number of positions of the parts' borders over which smoothing averages.
const borders = 256

// noise is the variance of the sum of neighbouring cells, given the counts of blocks.
func (c *fineColumn) noise(from, to int) (noise float64) {
	if c.block == 0 {
		return c.variance * float64(to-from)
	}
	for from < to {
		end := min(to, from-from%c.block+c.block)
		cells, block := float64(end-from), float64(c.block)
		noise += c.variance * (cells*(1-cells/block) + cells*cells/(block*(block+1)))
		from = end
	}
	return noise
}

// withHeaps splits fine cells that exceed both neighbours. The excess goes to their first value, the roundest,
// since people round. of maps each fine cell to its larger cell, before and after.
func (c *fineColumn) withHeaps(of []int) (parted fineColumn, partedOf []int) {
	if !isNumber(c.of) {
		return *c, of
	}
	parted = *c
	parted.from, parted.records = nil, nil
	n := len(c.from)
	density := func(i int) float64 {
		if i < 0 || i >= n {
			return 0
		}
		return c.records[i] / c.width(i)
	}
	for i := range n {
		even := max(density(i-1), density(i+1)) * c.width(i)
		heap := c.records[i] - even
		lo, hi := c.span(i)
		// People rarely write the first number after a value that is a cell by itself.
		behind := c.of.Kind != partition.Integer && i > 0 && lo == after(c.of, c.from[i-1])
		if next := after(c.of, lo); heap > heaped*math.Sqrt(c.variance) && next < hi && !behind {
			parted.from, parted.records = append(parted.from, lo, next), append(parted.records, heap, even)
			partedOf = append(partedOf, of[i], of[i])
			continue
		}
		parted.from, parted.records = append(parted.from, lo), append(parted.records, c.records[i])
		partedOf = append(partedOf, of[i])
	}
	parted.records = append(parted.records, c.records[n:]...)
	parted.n += len(parted.from) - n
	return parted, append(partedOf, of[n:]...)
}

// heaped is the number of deviations from which a fine cell's excess counts as a heap.
const heaped = 4

// width is the width of a fine cell on the column's scale; a single value counts as a millionth.
func (c *fineColumn) width(cell int) float64 {
	lo, hi := c.span(cell)
	if c.of.Kind == partition.Integer {
		lo, hi = math.Ceil(lo), math.Ceil(hi)
	}
	if c.of.Scale == partition.Log {
		lo, hi = math.Log1p(lo), math.Log1p(hi)
	}
	least, most := c.of.Range()
	if c.of.Scale == partition.Log {
		least, most = math.Log1p(least), math.Log1p(most)
	}
	return max(hi-lo, 1e-6*(most-least))
}
