package embedding

import (
	"math"

	"github.com/conclave-dp/conclave/partition/encode"
)

type column struct {
	kind encode.HeadKind
	// at is the first feature, width their number, flag that of the empty flag or -1.
	at, width, flag int
	// cells is the number of cells; the last one of a nullable number or binary is for empty.
	cells int
	// signed says that the column is one number, -1 or 1.
	signed bool
	// knots are the borders of a number's cells in [0, 1], ascending from 0 to 1.
	knots []float32
}

// place is a record's position in a column: cells a and b with their shares; b is -1 for none.
type place struct {
	a, b           int32
	shareA, shareB float32
}

// columnsOf lays out the cells of all columns of e. A column of two categories without an empty cell is one signed
// number, -1 or 1: together with the count it gives both, with half the noise.
func columnsOf(e *encode.Encoder, bins int) []column {
	var all []column
	for _, h := range e.Heads() {
		c := column{kind: h.Kind, at: h.Offset, width: h.Width, flag: -1, cells: h.Width}
		switch h.Kind {
		case encode.HeadMissing:
			last := &all[len(all)-1]
			last.flag = h.Offset
			last.cells++
			if last.kind == encode.HeadBinary {
				last.cells++
			}
			last.signed = false
			continue
		case encode.HeadNumber:
			c.knots = e.Values(h.Column, bins)
			if len(c.knots) < 2 {
				c.knots = knotsOf(bins)
			}
			c.cells = len(c.knots)
		case encode.HeadCategory:
			if c.signed = h.Width == 2; c.signed {
				c.cells = 1
			}
		case encode.HeadBinary:
			c.signed = true // unless an empty flag follows
		}
		all = append(all, c)
	}
	return all
}

// knotsOf divides [0, 1] evenly, and the first and the last part further, by factors of four towards the ends. If
// bounds are public and wide, many records are at one of them, and the distance of the others from it is most
// informative.
func knotsOf(bins int) []float32 {
	levels := 0
	switch {
	case bins >= 16:
		levels = 3
	case bins >= 8:
		levels = 2
	case bins >= 4:
		levels = 1
	}
	parts := bins - 1 - 2*levels
	var knots []float32
	for k := range parts + 1 {
		switch k {
		case 0:
			knots = append(knots, 0)
			for l := levels; l > 0; l-- {
				knots = append(knots, end(parts, l))
			}
		case parts:
			for l := 1; l <= levels; l++ {
				knots = append(knots, 1-end(parts, l))
			}
			knots = append(knots, 1)
		default:
			knots = append(knots, float32(k)/float32(parts))
		}
	}
	return knots
}

// end is the length of a part divided by four to the power of level.
func end(parts, level int) float32 { return float32(math.Pow(4, -float64(level)) / float64(parts)) }

// near reports whether a slope needs only the two cells of a record's place.
func (c *column) near() bool { return c.kind == encode.HeadNumber && c.flag < 0 }

// empty reports whether a record's cell is empty, by its flag.
func (c *column) empty(row []float32) bool { return c.flag >= 0 && row[c.flag] >= 0.5 }

// place returns a record's position in the column.
func (c *column) place(row []float32) place {
	if c.empty(row) {
		return place{a: int32(c.cells - 1), b: -1, shareA: 1}
	}
	return c.filled(row)
}

// filled is place as if the cell were not empty.
func (c *column) filled(row []float32) place {
	switch {
	case c.kind == encode.HeadNumber:
		k, t := c.between(row[c.at])
		return place{a: int32(k), b: int32(k + 1), shareA: 1 - t, shareB: t}
	case c.signed:
		sign := float32(-1)
		if c.second(row) {
			sign = 1
		}
		return place{b: -1, shareA: sign}
	case c.kind == encode.HeadBinary:
		// For a generated empty cell this is the probability of 1.
		t := unit(row[c.at])
		if c.empty(row) {
			return place{a: 0, b: 1, shareA: 1 - t, shareB: t}
		}
		if t >= 0.5 {
			return place{a: 1, b: -1, shareA: 1}
		}
		return place{b: -1, shareA: 1}
	}
	return place{a: int32(c.chosen(row)), b: -1, shareA: 1}
}

// second reports whether a signed column holds the second category.
func (c *column) second(row []float32) bool {
	if c.kind == encode.HeadBinary {
		return row[c.at] >= 0.5
	}
	return row[c.at+1] > row[c.at]
}

// chosen is the category of a record, the first one among equals.
func (c *column) chosen(row []float32) int {
	best := 0
	for k, v := range row[c.at : c.at+c.width] {
		if v > row[c.at+best] {
			best = k
		}
	}
	return best
}

// unit clamps a number to [0, 1].
func unit(v float32) float32 {
	if !(v > 0) {
		return 0
	}
	return min(v, 1)
}

// between returns the knot at or below a number, excluding the last, and the fraction of the way to the next one.
func (c *column) between(v float32) (k int, t float32) {
	v = unit(v)
	lo, hi := 0, len(c.knots)-1
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; c.knots[mid] <= v {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, unit((v - c.knots[lo]) / (c.knots[lo+1] - c.knots[lo]))
}

// spread maps a number to [-1, 1] with all knots at equal distances, and returns the slope there.
func (c *column) spread(v float32) (at, slope float32) {
	k, t := c.between(v)
	step := 2 / float32(len(c.knots)-1)
	return step*(float32(k)+t) - 1, step / (c.knots[k+1] - c.knots[k])
}

// places returns the places of n records x in all columns, shape [n, columns].
func places(dst []place, columns []column, x []float32, n int) []place {
	dst = dst[:0]
	width := len(x) / max(1, n)
	for i := range n {
		row := x[i*width : (i+1)*width]
		for j := range columns {
			dst = append(dst, columns[j].place(row))
		}
	}
	return dst
}

// slope adds the column's part of a record's gradient, given the gradient w with respect to its cells and the
// record's place.
func (c *column) slope(dx, row, w []float32, at place, scale float32) {
	switch {
	case c.kind == encode.HeadCategory:
		if c.signed {
			dx[c.at] -= scale * w[0]
			dx[c.at+1] += scale * w[0]
			return
		}
		for k, v := range w {
			dx[c.at+k] += scale * v
		}
		return
	case c.signed:
		dx[c.at] += 2 * scale * w[0]
		return
	}
	if c.flag >= 0 {
		p := c.filled(row)
		filled := p.shareA * w[p.a]
		if p.b >= 0 {
			filled += p.shareB * w[p.b]
		}
		dx[c.flag] += scale * (w[c.cells-1] - filled)
		if c.empty(row) {
			return
		}
	}
	if c.kind == encode.HeadBinary {
		dx[c.at] += scale * (w[1] - w[0])
		return
	}
	k := at.a
	dx[c.at] += scale * (w[k+1] - w[k]) / (c.knots[k+1] - c.knots[k])
}
