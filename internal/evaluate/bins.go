package evaluate

import (
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/partition"
)

// Bins map the cells of a column to categories: the column's own, or equal bins of a number from lo to hi. The
// last category is for empty cells. Numbers outside the range go to the outermost bins.
type Bins struct {
	number bool
	lo, hi float64
	count  int
}

// NewBins divides the public range of a column of numbers into this many bins.
func NewBins(c *partition.Column, count int) Bins {
	switch lo, hi := c.Range(); {
	case isNumber(c):
		return Bins{true, lo, hi, count}
	case c.Kind == partition.Binary:
		return Bins{count: 2}
	default:
		return Bins{count: max(1, len(c.Categories))}
	}
}

// Size is the number of categories, including the one for empty cells.
func (b Bins) Size() int { return b.count + 1 }

func (b Bins) codes(t *partition.Table, j int) []int32 {
	out := make([]int32, t.Len())
	for i := range out {
		out[i] = b.Code(t.Cells(i)[j])
	}
	return out
}

// Code is the category of a cell, from 0.
func (b Bins) Code(v float64) int32 {
	last := b.count - 1
	switch {
	case math.IsNaN(v):
		return int32(b.count)
	case !b.number:
		return int32(max(0, min(int(v), last)))
	case v < b.lo:
		return 0
	case v > b.hi:
		return int32(last)
	case b.hi == b.lo: // a constant: NumPy widens it like this
		return int32(b.count / 2)
	}
	// Halve first, for ranges whose width overflows. Rounding may put the quotient below a border on which the
	// value lies.
	at := max(0, min(int((v/2-b.lo/2)/(b.hi/2-b.lo/2)*float64(b.count)), last))
	for at < last && v >= b.border(at+1) {
		at++
	}
	for at > 0 && v < b.border(at) {
		at--
	}
	return int32(at)
}

// Draw returns a cell of a category: for a number, any point in its bin.
func (b Bins) Draw(code int, rng *rand.Rand) float64 {
	switch {
	case code == b.count:
		return math.NaN()
	case !b.number:
		return float64(code)
	}
	return b.lo + (float64(code)+rng.Float64())/float64(b.count)*(b.hi-b.lo)
}

// border is the lower end of a bin.
func (b Bins) border(at int) float64 {
	step := (b.hi - b.lo) / float64(b.count)
	if math.IsInf(step, 0) {
		step = b.hi/float64(b.count) - b.lo/float64(b.count)
	}
	return b.lo + float64(at)*step
}
