package trees

const (
	minGain  = 1e-9
	minCurve = 1e-3 // smallest sum of second derivatives of a leaf: nearly pure leaves stay whole
)

// LeafWiseOptions say how trees grow.
type LeafWiseOptions struct {
	Leaves       int     // largest number per tree
	MinRows      int     // smallest number per leaf, by weight
	LearningRate float64 // factor of the value of a leaf
	L2           float64 // added to the sum of second derivatives of a leaf
}

// openLeaf is a leaf that may still be split; gain 0 means that no split helps.
type openLeaf struct {
	node      int
	rows      []int32
	total     sums
	histogram []sums
	best      split
}

// LeafWise grows small trees leaf by leaf, largest gain first, one after another
// on the same rows, reusing memory.
type LeafWise struct {
	// Slope and Curve are the derivatives of the loss per row, set by the caller before Grow.
	Slope, Curve []float64

	data       Bins
	options    LeafWiseOptions
	rules      rules
	offset     []int     // first histogram cell of each column, and the end
	weight     []float64 // per row
	order      []int32   // rows, grouped by leaf
	spare      []int32
	leafSlope  []float64 // of the current leaf, in its row order
	leafCurve  []float64
	leafWeight []float64
	free       [][]sums
}

// NewLeafWise grows trees on rows of these weights.
func NewLeafWise(data Bins, weight []float64, o LeafWiseOptions) *LeafWise {
	g := &LeafWise{
		data: data, options: o, weight: weight, offset: make([]int, len(data.cells)+1),
		rules: rules{l2: o.L2, minRows: float64(o.MinRows), minCurve: minCurve},
	}
	for j, cuts := range data.cuts {
		g.offset[j+1] = g.offset[j] + len(cuts) + 1
	}
	floats := func() []float64 { return make([]float64, data.rows) }
	g.Slope, g.Curve = floats(), floats()
	g.leafSlope, g.leafCurve, g.leafWeight = floats(), floats(), floats()
	g.order, g.spare = make([]int32, data.rows), make([]int32, data.rows)
	return g
}

// Grow fits a tree to Slope and Curve and adds its values to logOdds.
func (g *LeafWise) Grow(logOdds []float64) Tree {
	for i := range g.order {
		g.order[i] = int32(i)
	}
	root := openLeaf{rows: g.order, histogram: g.measure(g.order)}
	for i, w := range g.weight {
		root.total = root.total.plus(sums{g.Slope[i], g.Curve[i], w})
	}
	root.best = g.bestSplit(root)

	grown := Tree{{}}
	leaves := []openLeaf{root}
	for len(leaves) < g.options.Leaves {
		at := 0
		for k := range leaves {
			if leaves[k].best.gain > leaves[at].best.gain {
				at = k
			}
		}
		parent := leaves[at]
		if parent.best.gain <= 0 {
			break
		}
		left, right := g.divide(parent)
		left.node, right.node = len(grown), len(grown)+1
		cut := g.data.cuts[parent.best.column][parent.best.bin]
		grown[parent.node] = Node{Column: parent.best.column, Cut: cut, Left: left.node, Right: right.node}
		grown = append(grown, Node{}, Node{})
		leaves[at] = left
		leaves = append(leaves, right)
	}
	for _, leaf := range leaves {
		value := -g.options.LearningRate * leaf.total.slope / (leaf.total.curve + g.options.L2)
		grown[leaf.node].Leaf = value
		for _, i := range leaf.rows {
			logOdds[i] += value
		}
		g.free = append(g.free, leaf.histogram)
	}
	return grown
}

// measure adds up the derivatives of the rows per column and bin.
func (g *LeafWise) measure(rows []int32) []sums {
	var histogram []sums
	if n := len(g.free); n > 0 {
		histogram, g.free = g.free[n-1], g.free[:n-1]
		clear(histogram)
	} else {
		histogram = make([]sums, g.offset[len(g.offset)-1])
	}
	slope, curve, weight := g.leafSlope[:len(rows)], g.leafCurve[:len(rows)], g.leafWeight[:len(rows)]
	for k, i := range rows {
		slope[k], curve[k], weight[k] = g.Slope[i], g.Curve[i], g.weight[i]
	}
	for j, column := range g.data.cells {
		part := histogram[g.offset[j]:g.offset[j+1]]
		if len(part) == 1 {
			continue // a constant column has no split
		}
		for k, i := range rows {
			cell := &part[column[i]]
			cell.slope += slope[k]
			cell.curve += curve[k]
			cell.rows += weight[k]
		}
	}
	return histogram
}

func (g *LeafWise) bestSplit(leaf openLeaf) split {
	if leaf.total.rows < 2*g.rules.minRows {
		return split{}
	}
	best := split{column: -1, gain: minGain}
	for j := range g.data.cells {
		g.rules.scan(leaf.histogram[g.offset[j]:g.offset[j+1]], leaf.total, j, &best)
	}
	if best.column < 0 {
		return split{}
	}
	return best
}

// divide applies a leaf's best split. Only the smaller side is measured; the
// other is the difference.
func (g *LeafWise) divide(parent openLeaf) (left, right openLeaf) {
	column := g.data.cells[parent.best.column]
	lows := divideRows(parent.rows, g.spare, column, parent.best.bin)
	left = openLeaf{rows: parent.rows[:lows], total: parent.best.left}
	right = openLeaf{rows: parent.rows[lows:], total: parent.total.minus(parent.best.left)}

	small, large := &left, &right
	if len(right.rows) < lows {
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

// divideRows puts the rows up to the bin before the others, keeps their order, and returns their number.
func divideRows(rows, spare []int32, column []uint16, bin int) int {
	lows, highs := 0, 0
	for _, i := range rows {
		if int(column[i]) <= bin {
			rows[lows] = i
			lows++
		} else {
			spare[highs] = i
			highs++
		}
	}
	copy(rows[lows:], spare[:highs])
	return lows
}
