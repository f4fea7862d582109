package trees

import (
	"math"
	"math/rand/v2"
)

// DepthFirst grows trees of any depth on weighted rows. Each split is the one that lowers the squared loss most
// (for labels: the Gini impurity). Nodes are split until their targets are all equal or no split exists, as in
// scikit-learn, even if a split gains nothing by itself.
type DepthFirst struct {
	data   Bins
	target []float64 // per row
	weight []float64
	// Depth is the largest depth of a tree; 0 means no limit.
	Depth int
	// LeafRows is the smallest number of rows in a leaf; 1 unless set.
	LeafRows float64
	// With Random, Tried columns are tried at a node, and more only if all of them are constant there.
	Tried  int
	Random *rand.Rand
	// Leaf returns the value of a leaf; nil means the mean target.
	Leaf func(rows []int32) float64

	grown   Tree
	columns []int
	spare   []int32
	nodeSum []float64 // weight times target of the current node's rows, in their order
	nodeW   []float64
	cells   []sums // of the bins of the current column
}

// NewDepthFirst grows trees for targets, one for each row of data. Targets and weights may change
// between trees.
func NewDepthFirst(data Bins, target, weight []float64) *DepthFirst {
	g := &DepthFirst{LeafRows: 1, data: data, target: target, weight: weight}
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

// AllRows lists the rows 0 to n-1.
func AllRows(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// Grow fits a tree to the rows and changes their order. There must be at least one row.
func (g *DepthFirst) Grow(rows []int32) Tree {
	if g.Random != nil {
		for j := range g.columns {
			g.columns[j] = j // so that a tree depends on Random only
		}
	}
	g.grown = Tree{{}}
	g.node(0, rows, 0)
	return g.grown
}

func (g *DepthFirst) node(at int, rows []int32, depth int) {
	total, pure := g.gather(rows)
	if !pure && (g.Depth == 0 || depth < g.Depth) {
		if best := g.best(rows, total); best.column >= 0 {
			column := g.data.cells[best.column]
			lows := divideRows(rows, g.spare, column, best.bin)
			left := len(g.grown)
			g.grown = append(g.grown, Node{}, Node{})
			g.grown[at] = Node{
				Column: best.column, Cut: g.cut(best, column, rows[lows:]), Left: left, Right: left + 1,
			}
			g.node(left, rows[:lows], depth+1)
			g.node(left+1, rows[lows:], depth+1)
			return
		}
	}
	if g.Leaf != nil {
		g.grown[at].Leaf = g.Leaf(rows)
	} else {
		g.grown[at].Leaf = total.slope / total.curve
	}
}

// gather adds up the rows and tells whether their targets are all equal.
func (g *DepthFirst) gather(rows []int32) (total sums, pure bool) {
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

// best returns the best split; column -1 means that there is none.
func (g *DepthFirst) best(rows []int32, total sums) split {
	best := split{column: -1}
	whole := total.gain(0)
	r := rules{
		minRows: g.LeafRows,
		// A side whose weight is only a rounding error does not count.
		minCurve: 1e-12 * total.curve,
		// Among splits with equal gain up to rounding, the first is taken.
		margin: 1e-11 * whole,
	}
	// Any split is better than none.
	best.gain = -1 - whole
	if g.Random == nil {
		for j := range g.columns {
			g.try(j, rows, total, r, &best)
		}
		return best
	}
	useful := false
	for k := range g.columns {
		if k >= g.Tried && useful {
			break
		}
		// Fisher and Yates's shuffle, as far as needed.
		swap := k + g.Random.IntN(len(g.columns)-k)
		g.columns[k], g.columns[swap] = g.columns[swap], g.columns[k]
		useful = g.try(g.columns[k], rows, total, r, &best) || useful
	}
	return best
}

// try looks for a better split on column j; it returns false if the column is constant.
func (g *DepthFirst) try(j int, rows []int32, total sums, r rules, best *split) bool {
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

// cut is halfway between the values on both sides of the split.
func (g *DepthFirst) cut(s split, column []uint16, above []int32) float64 {
	next := math.MaxInt
	for _, i := range above {
		next = min(next, int(column[i]))
	}
	return between(g.data.high[s.column][s.bin], g.data.low[s.column][next])
}
