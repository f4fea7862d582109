package tree

import "math"

// Clique is a clique of a tree with its table of probabilities.
type Clique struct {
	Columns []int // in rising order
	Parent  int   // the place of an earlier clique with which it shares columns, -1 for none
	Table   []float64
}

// Cliques returns the cliques of the tree, parents first.
func (t *Tree) Cliques() []Clique {
	place := make([]int, len(t.cliques))
	out := make([]Clique, 0, len(t.cliques))
	for i, at := range t.order {
		c := &t.cliques[at]
		place[at] = i
		parent := -1
		if c.parent >= 0 {
			parent = place[c.parent]
		}
		out = append(out, Clique{c.columns, parent, c.p})
	}
	return out
}

// Of makes a tree from cliques as [Tree.Cliques] returns them. A clique's table is conditional on the columns
// shared with its parent.
func Of(sizes []int, cliques []Clique) *Tree {
	t := &Tree{sizes: sizes}
	for i, given := range cliques {
		n := len(given.Table)
		c := clique{columns: given.Columns, log: make([]float64, n), p: make([]float64, n), parent: given.Parent,
			scaled: make([]float64, n)}
		if c.parent >= 0 {
			above := t.cliques[c.parent].columns
			c.separator = shared(c.columns, above)
			c.down, c.up = t.index(c.columns, c.separator), t.index(above, c.separator)
		}
		c.cells = cellsOf(sizes, c.separator)
		c.sums, c.top = make([]float64, c.cells), make([]float64, c.cells)
		sums := make([]float64, c.cells)
		for j, p := range given.Table {
			sums[c.at(j)] += p
		}
		for j, p := range given.Table {
			c.log[j] = math.Inf(-1)
			if p > 0 {
				c.log[j] = math.Log(p / sums[c.at(j)])
			}
		}
		t.cliques = append(t.cliques, c)
		t.order = append(t.order, i)
	}
	t.propagate()
	return t
}
