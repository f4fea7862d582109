package tree

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Factor multiplies the probability of each cell of columns in one clique.
type Factor struct {
	Columns []int
	By      []float64
}

// Given returns the distribution under conditions. It returns false if they rule out every row.
func (t *Tree) Given(factors []Factor) (*Tree, bool) {
	given := *t
	given.cliques = slices.Clone(t.cliques)
	for i := range given.cliques {
		c := &given.cliques[i]
		c.log, c.p = slices.Clone(c.log), slices.Clone(c.p)
		c.scaled = make([]float64, len(c.p))
		c.sums, c.top = make([]float64, c.cells), make([]float64, c.cells)
	}
	for _, f := range factors {
		c := &given.cliques[given.holding(f.Columns)]
		for j, cell := range given.index(c.columns, f.Columns) {
			c.log[j] += math.Log(f.By[cell])
		}
	}
	return &given, given.propagate()
}

// Draw draws rows, and returns the cells of each column. It goes through the columns, in groups of rows with
// equal cells so far. In a group each cell gets the whole part of its expected number, and only the fractions
// are random: the rows have less noise than if each were drawn by itself.
func (t *Tree) Draw(rows int, rng *rand.Rand) [][]int32 {
	cells := make([][]int32, len(t.sizes))
	for i := range cells {
		cells[i] = make([]int32, rows)
	}
	for _, i := range t.order {
		t.drawClique(&t.cliques[i], rows, cells, rng)
	}
	return cells
}

func (t *Tree) drawClique(c *clique, rows int, cells [][]int32, rng *rand.Rand) {
	ofRow := make([]int, rows) // the cell of the separator
	for _, column := range c.separator {
		for row, cell := range cells[column] {
			ofRow[row] = ofRow[row]*t.sizes[column] + int(cell)
		}
	}
	groups, choices := make([][]int, c.cells), make([][]int32, c.cells)
	for row, s := range ofRow {
		groups[s] = append(groups[s], row)
	}
	for j, p := range c.p {
		if s := c.at(j); p > 0 {
			choices[s] = append(choices[s], int32(j))
		}
	}
	for j := range c.p { // of groups in which every probability underflowed
		if s := c.at(j); len(groups[s]) > 0 && (len(choices[s]) == 0 || c.p[choices[s][0]] == 0) {
			choices[s] = append(choices[s], int32(j))
		}
	}
	for s, group := range groups {
		drawn := share(len(group), choices[s], c.p, rng)
		rng.Shuffle(len(drawn), func(a, b int) { drawn[a], drawn[b] = drawn[b], drawn[a] })
		for k, row := range group {
			at := int(drawn[k])
			for d := len(c.columns) - 1; d >= 0; d-- {
				size := t.sizes[c.columns[d]]
				cells[c.columns[d]][row] = int32(at % size)
				at /= size
			}
		}
	}
}

// share divides n places among choices in proportion to their weights. Whole parts are kept, and systematic
// sampling rounds the fractions, so that each choice gets its share in expectation.
func share(n int, choices []int32, weights []float64, rng *rand.Rand) []int32 {
	if n == 0 {
		return nil
	}
	total := 0.0
	for _, j := range choices {
		total += weights[j]
	}
	if total <= 0 { // the probabilities of this group underflowed: any choice is as good
		out := make([]int32, n)
		for i := range out {
			out[i] = choices[rng.IntN(len(choices))]
		}
		return out
	}
	// The order is random: in a fixed order, neighbours would never be rounded up together.
	order := rng.Perm(len(choices))
	out := make([]int32, 0, n)
	at, given := rng.Float64(), 0
	sum := at
	for k, o := range order {
		j := choices[o]
		sum += weights[j] / total * float64(n)
		upTo := int(sum)
		if k == len(order)-1 {
			upTo = n // exact, without rounding errors
		}
		for ; given < min(upTo, n); given++ {
			out = append(out, j)
		}
	}
	return out
}
