package marginals

import (
	"cmp"
	"math"
	"slices"
)

// fineColumn is a column as the first sum shows it.
type fineColumn struct {
	cells
	// records are the records in each fine cell: the released counts, adjusted to be nonnegative and to add up
	// to the total.
	records  []float64
	variance float64 // of the noise of the release
	block    int     // number of neighbours that were also counted together
}

// blocks is the number of blocks of a number's fine cells that are also counted.
const blocks = 16

// withBlocks combines the counts of blocks with those of fine cells. It takes the mean of both, weighted by
// their variances, and spreads the difference over the block.
func (c *fineColumn) withBlocks(counts []float64) {
	n := len(c.from)
	for b := range counts {
		from, to := b*c.block, min(n, (b+1)*c.block)
		if from >= n { // empty values have their own count
			to = len(c.records)
			from = n
		}
		if from == to {
			continue
		}
		size := float64(to - from)
		more := (counts[b] - sumOf(c.records[from:to])) * size / (size + 1)
		for i := from; i < to; i++ {
			c.records[i] += more / size
		}
	}
}

// total estimates the number of records from all columns, weighted by their noise.
func total(columns []fineColumn) float64 {
	sum, weights := 0.0, 0.0
	for _, c := range columns {
		w := 1 / (c.variance * float64(len(c.records)))
		for _, r := range c.records {
			sum += w * r
		}
		weights += w
	}
	return max(1, sum/weights)
}

// nearest moves counts to the nearest nonnegative counts that add up to a total.
func nearest(counts []float64, total float64) []float64 {
	sorted := slices.Clone(counts)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	sum, shift := 0.0, 0.0
	for i, c := range sorted {
		sum += c
		if s := (sum - total) / float64(i+1); c > s {
			shift = s
		}
	}
	out := make([]float64, len(counts))
	for i, c := range counts {
		out[i] = max(0, c-shift)
	}
	return out
}

// coarse returns the cells of a column for tables of pairs, whose counts have noise of this deviation, and for
// each fine cell its coarse cell. A number has at most `most` cells with about the same number of records, and
// spikes have cells of their own; categories that are lost in noise share one. within, unless it is nil, gives
// each fine cell its larger cell, and no coarse cell is in two of these.
func (c *fineColumn) coarse(records, noise float64, most int, within []int) (coarse cells, of []int) {
	of = make([]int, len(c.records))
	if within == nil {
		within = make([]int, len(of))
	}
	if !isNumber(c.of) {
		return c.merged(noise, most, within, of)
	}
	if len(c.from) <= most {
		return c.all()
	}
	deviation := math.Sqrt(c.variance)
	var from []float64
	for target := records / float64(most); ; target *= 1.2 {
		spike := func(i int) bool {
			return c.records[i] > 0.5*target && c.records[i] > 4*deviation
		}
		from = from[:0]
		held := 0.0
		for i := range c.from {
			apart := i == 0 || c.named(i) || within[i] != within[i-1] || spike(i) || spike(i-1)
			if apart || held+c.records[i]/2 > target {
				from = append(from, c.from[i])
				held = 0
			}
			held += c.records[i]
			of[i] = len(from) - 1
		}
		if len(from) <= most || target > records {
			break
		}
	}
	if c.of.Nullable {
		of[len(c.from)] = len(from)
	}
	coarse = c.cells
	coarse.from, coarse.n = from, len(from)
	if c.of.Nullable {
		coarse.n++
	}
	return coarse, of
}

// all returns the fine cells themselves.
func (c *fineColumn) all() (cells, []int) {
	of := make([]int, len(c.records))
	for i := range of {
		of[i] = i
	}
	return c.cells, of
}

// merged puts the categories that are lost in noise, and those beyond the limit, into one cell, if there are
// several.
func (c *fineColumn) merged(noise float64, most int, within, of []int) (cells, []int) {
	order := make([]int, len(c.records))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.records[b], c.records[a]) })
	// The cell with several members is the shared cell of the categories merged so far.
	others, members := -1, map[int]int{}
	for _, w := range within {
		if members[w]++; members[w] > 1 {
			others = w
		}
	}
	rare, n := make([]bool, len(order)), 0
	for rank, i := range order {
		if within[i] == others && (c.records[i] < noise || rank >= most-1) {
			rare[i] = true
			n++
		}
	}
	// A constraint may distinguish values that would share a cell.
	if n < 2 || len(order) < 4 || c.constrained {
		return c.all()
	}
	groups, next, lost := make([]uint32, len(order)), uint32(0), -1
	for i := range groups {
		switch {
		case !rare[i]:
			groups[i], next = next, next+1
		case lost < 0:
			groups[i], lost, next = next, int(next), next+1
		default:
			groups[i] = uint32(lost)
		}
	}
	for i, g := range groups {
		of[i] = int(g)
	}
	return c.grouped(groups), of
}
