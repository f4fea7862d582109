package classify

import (
	"math"
	"math/rand/v2"
)

// depthfirst grows trees of any depth on weighted rows, each split the one that
// most lowers the squared loss (for labels: the Gini impurity). Nodes are split
// until their targets are all equal or nothing divides them, as in scikit-learn,
// even where a split gains nothing by itself.
type depthfirst struct {
	data   bins
	target []float64 // per row
	weight []float64
	depth  int // at most; no limit when 0
	// leafRows is how many rows a leaf has at least.
	leafRows float64
	// With rng, so many columns are tried at a node, more only while all tried
	// are constant there.
	tried int
	rng   *rand.Rand
	// leaf gives the value of a leaf; nil is the mean target.
	leaf func(rows []int32) float64

	gains   []float64 // per column, of the tree grown last
	grown   tree
	columns []int
	spare   []int32
	nodeSum []float64 // weight times target of the rows in work, in their order
	nodeW   []float64
	cells   []sums // of the bins of the column in work
}

func newDepthfirst(data bins, target, weight []float64) *depthfirst {
	g := &depthfirst{leafRows: 1, data: data, target: target, weight: weight, gains: make([]float64, len(data.cells))}
	most := 0
	for j, cuts := range data.cuts {
		g.columns = append(g.columns, j)
		most = max(most, len(cuts)+1)
	}
	g.cells = make([]sums, most)
	g.spare = make([]int32, data.rows)
	g.nodeSum, g.nodeW = make([]float64, data.rows), make([]float64, data.rows)
	return g
}

// allRows lists the rows 0 to n-1.
func allRows(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// grow fits a tree to the rows, of which there is at least one, and changes
// their order.
func (g *depthfirst) grow(rows []int32) tree {
	clear(g.gains)
	if g.rng != nil {
		for j := range g.columns {
			g.columns[j] = j // so that a tree depends on rng only
		}
	}
	g.grown = tree{{}}
	g.node(0, rows, 0)
	return g.grown
}

func (g *depthfirst) node(at int, rows []int32, depth int) {
	total, pure := g.gather(rows)
	if !pure && (g.depth == 0 || depth < g.depth) {
		if best := g.best(rows, total); best.column >= 0 {
			column := g.data.cells[best.column]
			lows := divideRows(rows, g.spare, column, best.bin)
			left := len(g.grown)
			g.grown = append(g.grown, node{}, node{})
			g.grown[at] = node{
				column: best.column, cut: g.cut(best, column, rows[lows:]), left: left, right: left + 1,
			}
			g.gains[best.column] += max(0, best.gain)
			g.node(left, rows[:lows], depth+1)
			g.node(left+1, rows[lows:], depth+1)
			return
		}
	}
	if g.leaf != nil {
		g.grown[at].leaf = g.leaf(rows)
	} else {
		g.grown[at].leaf = total.slope / total.curve
	}
}

// gather adds up the rows and says whether their targets are all the same.
func (g *depthfirst) gather(rows []int32) (total sums, pure bool) {
	pure = true
	for k, i := range rows {
		w := g.weight[i]
		g.nodeW[k], g.nodeSum[k] = w, w*g.target[i]
		total.slope += g.nodeSum[k]
		total.curve += w
		pure = pure && g.target[i] == g.target[rows[0]]
	}
	total.rows = float64(len(rows))
	return total, pure
}

// best is the split to be made; column -1 says that there is none.
func (g *depthfirst) best(rows []int32, total sums) split {
	best := split{column: -1}
	whole := total.gain(0)
	r := rules{
		minRows: g.leafRows,
		// What rounding leaves of one side is no side.
		minCurve: 1e-12 * total.curve,
		// Splits that gain the same but for rounding: the first is taken.
		margin: 1e-11 * whole,
	}
	// Any split is better than none.
	best.gain = -1 - whole
	if g.rng == nil {
		for j := range g.columns {
			g.try(j, rows, total, r, &best)
		}
		return best
	}
	useful := false
	for k := range g.columns {
		if k >= g.tried && useful {
			break
		}
		// Fisher and Yates's shuffle, as far as it is needed.
		swap := k + g.rng.IntN(len(g.columns)-k)
		g.columns[k], g.columns[swap] = g.columns[swap], g.columns[k]
		useful = g.try(g.columns[k], rows, total, r, &best) || useful
	}
	return best
}

// try looks for a better split of column j; false where it is constant.
func (g *depthfirst) try(j int, rows []int32, total sums, r rules, best *split) bool {
	column := g.data.cells[j]
	first, last := g.data.ends(j, rows)
	if first == last {
		return false
	}
	part := g.cells[first : last+1]
	clear(part)
	sum, weight := g.nodeSum[:len(rows)], g.nodeW[:len(rows)]
	for k, i := range rows {
		cell := &g.cells[column[i]]
		cell.slope += sum[k]
		cell.curve += weight[k]
		cell.rows++
	}
	found := split{column: -1, gain: best.gain}
	r.scan(part, total, j, &found)
	if found.column >= 0 {
		found.bin += first
		*best = found
	}
	return true
}

// cut lies halfway between the values on both sides of the split.
func (g *depthfirst) cut(s split, column []uint16, above []int32) float64 {
	next := math.MaxInt
	for _, i := range above {
		next = min(next, int(column[i]))
	}
	return between(g.data.high[s.column][s.bin], g.data.low[s.column][next])
}

// ends are the first and the last bin of a column that hold any of the rows.
func (b bins) ends(j int, rows []int32) (first, last int) {
	column := b.cells[j]
	if len(b.cuts[j]) == 0 {
		return 0, 0
	}
	low, high := column[rows[0]], column[rows[0]]
	for _, i := range rows {
		low, high = min(low, column[i]), max(high, column[i])
		if int(low) == 0 && int(high) == len(b.cuts[j]) {
			break
		}
	}
	return int(low), int(high)
}
