package classify

const (
	minGain  = 1e-9
	minCurve = 1e-3 // least sum of second derivatives of a leaf: nearly pure leaves stay whole
)

// tree is a regression tree. Node 0 is the root; a leaf has left 0.
type tree []node

type node struct {
	column      int
	cut         float64 // values up to it go left
	left, right int
	leaf        float64
}

func (t tree) value(row []float64) float64 {
	k := 0
	for t[k].left != 0 {
		if row[t[k].column] <= t[k].cut {
			k = t[k].left
		} else {
			k = t[k].right
		}
	}
	return t[k].leaf
}

// sums are the first and second derivatives of the loss over some rows.
type sums struct {
	slope, curve float64
	rows         int
}

func (s sums) plus(o sums) sums  { return sums{s.slope + o.slope, s.curve + o.curve, s.rows + o.rows} }
func (s sums) minus(o sums) sums { return sums{s.slope - o.slope, s.curve - o.curve, s.rows - o.rows} }

// gain is what a leaf of these rows takes off the loss, twice.
func (s sums) gain(l2 float64) float64 { return s.slope * s.slope / (s.curve + l2) }

// split is a way to divide a leaf; gain 0 means that there is none.
type split struct {
	column, bin int
	gain        float64
	left        sums
}

// openLeaf is a leaf that may still be divided.
type openLeaf struct {
	node      int
	rows      []int32
	total     sums
	histogram []sums
	best      split
}

// grower grows one tree after another on the same rows, reusing memory.
type grower struct {
	data         bins
	options      BoostingOptions
	offset       []int     // first histogram cell of each column, and the end
	slope, curve []float64 // per row, set by the caller before grow
	order        []int32   // rows, grouped by leaf
	spare        []int32
	leafSlope    []float64 // of the leaf in work, in the leaf's row order
	leafCurve    []float64
	free         [][]sums
}

func newGrower(data bins, o BoostingOptions) *grower {
	g := &grower{data: data, options: o, offset: make([]int, len(data.cells)+1)}
	for j, cuts := range data.cuts {
		g.offset[j+1] = g.offset[j] + len(cuts) + 1
	}
	g.slope, g.curve = make([]float64, data.rows), make([]float64, data.rows)
	g.leafSlope, g.leafCurve = make([]float64, data.rows), make([]float64, data.rows)
	g.order, g.spare = make([]int32, data.rows), make([]int32, data.rows)
	return g
}

// grow fits a tree to slope and curve and adds its values to logOdds.
func (g *grower) grow(logOdds []float64) tree {
	for i := range g.order {
		g.order[i] = int32(i)
	}
	root := openLeaf{rows: g.order, histogram: g.measure(g.order)}
	for i := range g.slope {
		root.total = root.total.plus(sums{g.slope[i], g.curve[i], 1})
	}
	root.best = g.bestSplit(root)

	grown := tree{{}}
	leaves := []openLeaf{root}
	for len(leaves) < g.options.Leaves {
		at := 0
		for k := range leaves {
			if leaves[k].best.gain > leaves[at].best.gain {
				at = k
			}
		}
		if leaves[at].best.gain <= 0 {
			break
		}
		parent := leaves[at]
		left, right := g.divide(parent)
		left.node, right.node = len(grown), len(grown)+1
		cut := g.data.cuts[parent.best.column][parent.best.bin]
		grown[parent.node] = node{column: parent.best.column, cut: cut, left: left.node, right: right.node}
		grown = append(grown, node{}, node{})
		leaves[at] = left
		leaves = append(leaves, right)
	}
	for _, leaf := range leaves {
		value := -g.options.LearningRate * leaf.total.slope / (leaf.total.curve + g.options.L2)
		grown[leaf.node].leaf = value
		for _, i := range leaf.rows {
			logOdds[i] += value
		}
		g.free = append(g.free, leaf.histogram)
	}
	return grown
}

// measure adds up the derivatives of the rows per column and bin.
func (g *grower) measure(rows []int32) []sums {
	var histogram []sums
	if n := len(g.free); n > 0 {
		histogram, g.free = g.free[n-1], g.free[:n-1]
		clear(histogram)
	} else {
		histogram = make([]sums, g.offset[len(g.offset)-1])
	}
	slope, curve := g.leafSlope[:len(rows)], g.leafCurve[:len(rows)]
	for k, i := range rows {
		slope[k], curve[k] = g.slope[i], g.curve[i]
	}
	for j, column := range g.data.cells {
		part := histogram[g.offset[j]:g.offset[j+1]]
		if len(part) == 1 {
			continue // a constant column: nothing to divide
		}
		for k, i := range rows {
			cell := &part[column[i]]
			cell.slope += slope[k]
			cell.curve += curve[k]
			cell.rows++
		}
	}
	return histogram
}

func (g *grower) bestSplit(leaf openLeaf) split {
	var best split
	if leaf.total.rows < 2*g.options.MinRows {
		return best
	}
	whole := leaf.total.gain(g.options.L2)
	for j := range g.data.cells {
		part := leaf.histogram[g.offset[j]:g.offset[j+1]]
		var left sums
		for k := range len(part) - 1 {
			if part[k].rows == 0 {
				continue // the same division as the bin before
			}
			left = left.plus(part[k])
			right := leaf.total.minus(left)
			if left.rows < g.options.MinRows || left.curve < minCurve {
				continue
			}
			if right.rows < g.options.MinRows || right.curve < minCurve {
				break
			}
			gain := left.gain(g.options.L2) + right.gain(g.options.L2) - whole
			if gain > minGain && gain > best.gain {
				best = split{column: j, bin: k, gain: gain, left: left}
			}
		}
	}
	return best
}

// divide applies a leaf's best split. Only the smaller side is measured; the
// other is the difference.
func (g *grower) divide(parent openLeaf) (left, right openLeaf) {
	column := g.data.cells[parent.best.column]
	lows, highs := 0, 0
	for _, i := range parent.rows {
		if int(column[i]) <= parent.best.bin {
			parent.rows[lows] = i
			lows++
		} else {
			g.spare[highs] = i
			highs++
		}
	}
	copy(parent.rows[lows:], g.spare[:highs])
	left = openLeaf{rows: parent.rows[:lows], total: parent.best.left}
	right = openLeaf{rows: parent.rows[lows:], total: parent.total.minus(parent.best.left)}

	small, large := &left, &right
	if highs < lows {
		small, large = &right, &left
	}
	small.histogram = g.measure(small.rows)
	large.histogram = parent.histogram
	for k, s := range small.histogram {
		large.histogram[k] = large.histogram[k].minus(s)
	}
	left.best, right.best = g.bestSplit(left), g.bestSplit(right)
	return left, right
}
