package trees

// sums are the first and second derivatives of the loss over some rows, and the number of rows. For the squared
// loss of weighted rows the derivatives are, up to the sign, the sum of weight times target and the sum of
// weights. gain is then the fall of the sum of squares, and for targets 0 and 1 half the fall of weight times
// Gini impurity (Breiman et al. 1984).
type sums struct {
	slope, curve, rows float64
}

func (s sums) plus(o sums) sums  { return sums{s.slope + o.slope, s.curve + o.curve, s.rows + o.rows} }
func (s sums) minus(o sums) sums { return sums{s.slope - o.slope, s.curve - o.curve, s.rows - o.rows} }

// gain is twice the amount by which a leaf of these rows reduces the loss.
func (s sums) gain(l2 float64) float64 { return s.slope * s.slope / (s.curve + l2) }

// split is a way to divide a leaf.
type split struct {
	column, bin int
	gain        float64
	left        sums
}

// rules say which splits are allowed. A later split replaces an earlier one if its gain is larger by more than
// margin.
type rules struct {
	l2, minRows, minCurve, margin float64
}

// scan looks for a split between the bins of a column that is better than best.
func (r rules) scan(part []sums, total sums, column int, best *split) {
	whole := total.gain(r.l2)
	var left sums
	for k := range len(part) - 1 {
		if part[k].rows == 0 {
			continue // the same split as at the previous bin
		}
		left = left.plus(part[k])
		right := total.minus(left)
		if left.rows < r.minRows || left.curve < r.minCurve {
			continue
		}
		if right.rows < r.minRows || right.curve < r.minCurve {
			break
		}
		gain := left.gain(r.l2) + right.gain(r.l2) - whole
		if gain > best.gain+r.margin {
			*best = split{column: column, bin: k, gain: gain, left: left}
		}
	}
}
