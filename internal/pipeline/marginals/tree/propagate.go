package tree

import "math"

// propagate computes the probabilities from the potentials: messages go from the leaves to the roots, and back. If
// nothing is possible, it returns false and leaves the probabilities unchanged.
func (t *Tree) propagate() bool {
	defer t.clear()
	for i := len(t.order) - 1; i >= 0; i-- {
		c := &t.cliques[t.order[i]]
		// scaled now has the messages of all children. Each cell of the separator has its own scale: relative
		// to the largest potential of the whole table some would underflow.
		for s := range c.top {
			c.top[s] = math.Inf(-1)
		}
		possible := false
		for j, l := range c.log {
			c.scaled[j] += l
			if s := c.at(j); c.scaled[j] > c.top[s] {
				c.top[s], possible = c.scaled[j], true
			}
		}
		if !possible {
			return false
		}
		clear(c.sums)
		for j, l := range c.scaled {
			s := c.at(j)
			c.scaled[j] = 0
			if !math.IsInf(l, -1) {
				c.scaled[j] = math.Exp(l - c.top[s])
			}
			c.sums[s] += c.scaled[j]
		}
		if c.parent < 0 {
			continue
		}
		for s, sum := range c.sums {
			c.top[s] += math.Log(sum) // of an impossible cell it is log 0
		}
		above := &t.cliques[c.parent]
		for j, s := range c.up {
			above.scaled[j] += c.top[s]
		}
	}
	for _, i := range t.order {
		c := &t.cliques[i]
		clear(c.top)
		if c.parent < 0 {
			c.top[0] = 1
		} else {
			for j, p := range t.cliques[c.parent].p {
				c.top[c.up[j]] += p
			}
		}
		for s, sum := range c.sums {
			if sum > 0 {
				c.top[s] /= sum
			}
		}
		for j, e := range c.scaled {
			c.p[j] = e * c.top[c.at(j)]
		}
	}
	return true
}

// at returns the cell of the separator that contains a cell of the clique.
func (c *clique) at(cell int) int32 {
	if c.parent < 0 {
		return 0
	}
	return c.down[cell]
}

func (t *Tree) clear() {
	for i := range t.cliques {
		clear(t.cliques[i].scaled)
	}
}

// Table returns the probabilities of the cells of columns in one clique.
func (t *Tree) Table(columns []int) []float64 {
	c := &t.cliques[t.holding(columns)]
	out := make([]float64, cellsOf(t.sizes, columns))
	for i, at := range t.index(c.columns, columns) {
		out[at] += c.p[i]
	}
	return out
}

// Pair returns the probabilities of the cells of any two columns, a < b, in rows of b's cells.
func (t *Tree) Pair(a, b int) []float64 {
	if t.Holds([]int{a, b}) {
		return t.Table([]int{a, b})
	}
	path := t.path(a, b)
	n := t.sizes[a]
	// joint has a row for each cell of a, over the cells of the next separator.
	var joint []float64
	first := &t.cliques[path[0].clique]
	joint = make([]float64, n*path[0].cells)
	ofA := t.index(first.columns, []int{a})
	for i, p := range first.p {
		joint[int(ofA[i])*path[0].cells+int(path[0].leave[i])] += p
	}
	before := path[0].cells
	for k := 1; k < len(path); k++ {
		c := &t.cliques[path[k].clique]
		leave, cells := path[k].leave, path[k].cells
		if leave == nil {
			leave, cells = t.index(c.columns, []int{b}), t.sizes[b]
		}
		total := make([]float64, before)
		for i, p := range c.p {
			total[path[k].enter[i]] += p
		}
		next := make([]float64, n*cells)
		for i, p := range c.p {
			if p == 0 {
				continue
			}
			enter, to := int(path[k].enter[i]), int(leave[i])
			share := p / total[enter]
			for row := range n {
				next[row*cells+to] += joint[row*before+enter] * share
			}
		}
		joint, before = next, cells
	}
	return joint
}

// step is one clique of a path. enter and leave map each of its cells to a cell of the separators, nil at the
// path's ends; cells is the size of the separator by which the path leaves it.
type step struct {
	clique       int
	enter, leave []int32
	cells        int
}

// path is the shortest path from a clique with column a to one with b.
func (t *Tree) path(a, b int) []step {
	n := len(t.cliques)
	near := make([][]int, n)
	for i, c := range t.cliques {
		if c.parent >= 0 {
			near[i] = append(near[i], c.parent)
			near[c.parent] = append(near[c.parent], i)
		}
	}
	from := make([]int, n)
	var queue []int
	for i := range from {
		from[i] = -2
		if within([]int{a}, t.cliques[i].columns) {
			from[i] = -1
			queue = append(queue, i)
		}
	}
	at := -1
	for len(queue) > 0 {
		at, queue = queue[0], queue[1:]
		if within([]int{b}, t.cliques[at].columns) {
			break
		}
		for _, i := range near[at] {
			if from[i] == -2 {
				from[i] = at
				queue = append(queue, i)
			}
		}
	}
	var path []step
	for ; at >= 0; at = from[at] {
		path = append([]step{{clique: at}}, path...)
	}
	for k := range len(path) - 1 {
		x, y := path[k].clique, path[k+1].clique
		if c := &t.cliques[x]; c.parent == y {
			path[k].leave, path[k+1].enter, path[k].cells = c.down, c.up, c.cells
		} else {
			c := &t.cliques[y]
			path[k].leave, path[k+1].enter, path[k].cells = c.up, c.down, c.cells
		}
	}
	return path
}
