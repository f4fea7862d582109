package measure

import (
	"fmt"
	"math"
)

// denseCells is the largest contingency table that is stored in full; larger ones store only cells with rows.
const denseCells = 1 << 16

// ContingencyTotalVariation is the total variation distance of two joint
// distributions of len(sizes) categorical columns: half the sum, over the cells
// of the contingency table, of the difference of their shares. 0 is equal, 1
// means no common cell. a and b hold the columns of two tables, a[j][i] the
// category of row i in column j, from 0 to sizes[j]-1; wa and wb are the rows'
// weights, nil for 1 each. For one column it is their total variation distance.
//
// It fails with ErrNoValues without rows, with ErrWeights, and for columns of
// unequal length, categories out of range, and more than 2^62 cells.
func ContingencyTotalVariation(a, b [][]int32, sizes []int, wa, wb []float64) (float64, error) {
	fail := func(err error) (float64, error) { return 0, fmt.Errorf("contingency: %w", err) }
	cells := 1.0
	for _, size := range sizes {
		cells *= float64(size)
	}
	if len(sizes) == 0 || !(cells >= 1 && cells <= 1<<62) {
		return fail(fmt.Errorf("%d columns make %v cells: choose fewer columns or categories", len(sizes), cells))
	}
	table := &contingency{}
	if cells <= denseCells {
		table.shares = make([][2]float64, int(cells))
	} else {
		table.index = map[int64]int{}
	}
	for side, x := range [][][]int32{a, b} {
		weight := wa
		if side == 1 {
			weight = wb
		}
		if err := table.add(side, x, sizes, weight); err != nil {
			return fail(err)
		}
	}
	total := 0.0
	for _, s := range table.shares {
		total += math.Abs(s[0] - s[1])
	}
	return min(total/2, 1), nil
}

// contingency holds the shares of cells in both tables. With an index, cells are in the order of their first
// rows, which is deterministic.
type contingency struct {
	shares [][2]float64
	index  map[int64]int
}

func (c *contingency) add(side int, x [][]int32, sizes []int, weight []float64) error {
	if len(x) != len(sizes) {
		return fmt.Errorf("%d columns but the sizes of %d", len(x), len(sizes))
	}
	rows := len(x[0])
	w, err := Weights(rows, weight)
	if err != nil {
		return err
	}
	total := Sum(w)
	if total == 0 {
		return ErrNoValues
	}
	cells := make([]int64, rows)
	for j, column := range x {
		if len(column) != rows {
			return fmt.Errorf("columns of %d and of %d rows", rows, len(column))
		}
		for i, v := range column {
			if v < 0 || int(v) >= sizes[j] {
				return fmt.Errorf("category %d of row %d in column %d: there are %d", v, i+1, j+1, sizes[j])
			}
			cells[i] = cells[i]*int64(sizes[j]) + int64(v)
		}
	}
	for i, cell := range cells {
		at := int(cell)
		if c.index != nil {
			var seen bool
			if at, seen = c.index[cell]; !seen {
				at = len(c.shares)
				c.index[cell] = at
				c.shares = append(c.shares, [2]float64{})
			}
		}
		c.shares[at][side] += w[i]
	}
	for i := range c.shares {
		c.shares[i][side] /= total
	}
	return nil
}
