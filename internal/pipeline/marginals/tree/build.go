package tree

import (
	"math"
	"slices"
)

// Tree is a distribution over columns of discrete cells.
type Tree struct {
	sizes   []int // cells of each column
	cliques []clique
	order   []int // of the cliques, parents first
}

// clique is a set of columns with a joint table.
type clique struct {
	columns []int // in rising order
	// log holds the potentials and p the probabilities, the last column's cell running fastest.
	log, p []float64
	parent int // -1 for a root
	// separator are the columns shared with the parent. down and up map each cell of this clique's table, and of
	// its parent's, to a cell of the separator.
	separator []int
	cells     int // of the separator
	down, up  []int32
	// scaled, by cell, and top and sums, by the separator's cells, are working memory of [Tree.propagate].
	scaled, top, sums []float64
}

// Build makes a tree whose cliques contain each of the given sets of columns, with the uniform distribution.
// Sizes are the cells of each column.
func Build(sizes []int, sets [][]int) *Tree {
	t := &Tree{sizes: sizes}
	for _, columns := range cliquesOf(sizes, sets) {
		n := cellsOf(sizes, columns)
		t.cliques = append(t.cliques, clique{
			columns: columns, log: make([]float64, n), p: make([]float64, n), parent: -1,
			scaled: make([]float64, n),
		})
	}
	t.join()
	t.propagate()
	return t
}

// Cells is the total number of cells in the tables of the tree for these sets.
func Cells(sizes []int, sets [][]int) int {
	sum := 0
	for _, columns := range cliquesOf(sizes, sets) {
		sum += cellsOf(sizes, columns)
		if sum > math.MaxInt32 {
			return math.MaxInt32
		}
	}
	return sum
}

// cellsOf is the size of a table, at most MaxInt32.
func cellsOf(sizes, columns []int) int {
	n := 1
	for _, c := range columns {
		if n *= sizes[c]; n > math.MaxInt32 {
			return math.MaxInt32
		}
	}
	return n
}

// cliquesOf returns the maximal cliques of a triangulation of the graph in which the columns of each set are
// neighbours. Columns are eliminated in the order of the size of the table that this makes, the smallest first.
func cliquesOf(sizes []int, sets [][]int) (cliques [][]int) {
	n := len(sizes)
	next := make([]map[int]bool, n)
	for i := range next {
		next[i] = map[int]bool{}
	}
	for _, set := range sets {
		for _, a := range set {
			for _, b := range set {
				if a != b {
					next[a][b] = true
				}
			}
		}
	}
	cost := func(c int) float64 {
		sum := math.Log(float64(sizes[c]))
		for b := range next[c] {
			sum += math.Log(float64(sizes[b]))
		}
		return sum
	}
	costs := make([]float64, n)
	for c := range costs {
		costs[c] = cost(c)
	}
	left := make([]bool, n)
	for i := range left {
		left[i] = true
	}
	for range n {
		best := -1
		for c := range n {
			if left[c] && (best < 0 || costs[c] < costs[best]-1e-9) {
				best = c
			}
		}
		around := make([]int, 0, len(next[best]))
		for b := range next[best] {
			around = append(around, b)
		}
		slices.Sort(around)
		made := append(slices.Clone(around), best)
		slices.Sort(made)
		if !slices.ContainsFunc(cliques, func(c []int) bool { return within(made, c) }) {
			cliques = append(cliques, made)
		}
		for _, a := range around {
			delete(next[a], best)
			for _, b := range around {
				if a != b {
					next[a][b] = true
				}
			}
		}
		left[best] = false
		for _, a := range around {
			costs[a] = cost(a)
		}
	}
	return cliques
}

// within tells whether a rising list is a subset of another.
func within(part, whole []int) bool {
	i := 0
	for _, w := range whole {
		if i < len(part) && part[i] == w {
			i++
		}
	}
	return i == len(part)
}

func shared(a, b []int) (both []int) {
	for _, c := range a {
		if _, in := slices.BinarySearch(b, c); in {
			both = append(both, c)
		}
	}
	return both
}

// join gives the cliques their parents: the spanning tree with the largest separators, which is a junction
// tree.
func (t *Tree) join() {
	n := len(t.cliques)
	weight, from := make([]int, n), make([]int, n)
	for i := range weight {
		weight[i], from[i] = -1, -1
	}
	joined := make([]bool, n)
	for range n {
		best := -1
		for i := range n {
			if !joined[i] && (best < 0 || weight[i] > weight[best]) {
				best = i
			}
		}
		joined[best] = true
		t.order = append(t.order, best)
		c := &t.cliques[best]
		c.parent = from[best]
		if c.parent >= 0 {
			above := &t.cliques[c.parent]
			c.separator = shared(c.columns, above.columns)
			c.down = t.index(c.columns, c.separator)
			c.up = t.index(above.columns, c.separator)
		}
		c.cells = cellsOf(t.sizes, c.separator)
		c.sums, c.top = make([]float64, c.cells), make([]float64, c.cells)
		for i := range n {
			if joined[i] {
				continue
			}
			if w := len(shared(c.columns, t.cliques[i].columns)); w > weight[i] {
				weight[i], from[i] = w, best
			}
		}
	}
}

// index maps each cell of a table of columns to a cell of a table of some of them.
func (t *Tree) index(columns, part []int) []int32 {
	stride := make([]int, len(columns))
	step := 1
	for i := len(part) - 1; i >= 0; i-- {
		at, _ := slices.BinarySearch(columns, part[i])
		stride[at] = step
		step *= t.sizes[part[i]]
	}
	out := make([]int32, cellsOf(t.sizes, columns))
	digits := make([]int, len(columns))
	at := 0
	for i := range out {
		out[i] = int32(at)
		for d := len(columns) - 1; d >= 0; d-- {
			at += stride[d]
			if digits[d]++; digits[d] < t.sizes[columns[d]] {
				break
			}
			at -= stride[d] * digits[d]
			digits[d] = 0
		}
	}
	return out
}

// holding returns the smallest clique that contains the columns, -1 for none.
func (t *Tree) holding(columns []int) int {
	best := -1
	for i, c := range t.cliques {
		if within(columns, c.columns) && (best < 0 || len(c.p) < len(t.cliques[best].p)) {
			best = i
		}
	}
	return best
}

// Holds tells whether a clique contains the columns, which are in rising order.
func (t *Tree) Holds(columns []int) bool { return t.holding(columns) >= 0 }
