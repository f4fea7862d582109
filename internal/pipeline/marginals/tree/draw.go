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
// are random, and rounded so that sums over groups are near their expectation too: the rows have less noise than
// if each were drawn by itself.
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
	drawn := share(groups, choices, c.p, t.index(c.columns, c.drawn()), rng)
	for s, group := range groups {
		rng.Shuffle(len(group), func(a, b int) { group[a], group[b] = group[b], group[a] })
		for k, row := range group {
			at := int(drawn[s][k])
			for d := len(c.columns) - 1; d >= 0; d-- {
				size := t.sizes[c.columns[d]]
				cells[c.columns[d]][row] = int32(at % size)
				at /= size
			}
		}
	}
}

// drawn are the columns that are drawn with the clique: those that are not in the separator.
func (c *clique) drawn() (columns []int) {
	for _, column := range c.columns {
		if !slices.Contains(c.separator, column) {
			columns = append(columns, column)
		}
	}
	return columns
}

// share divides the rows of each group among its choices, in proportion to their weights. Whole parts are kept,
// and the fractions are rounded. of tells which choices of different groups are the same cell of the drawn columns.
func share(groups [][]int, choices [][]int32, weights []float64, of []int32, rng *rand.Rand) [][]int32 {
	drawn := make([][]int32, len(groups))
	round := rounding{rng: rng}
	for s, group := range groups {
		n, total := len(group), 0.0
		for _, j := range choices[s] {
			total += weights[j]
		}
		switch {
		case n == 0:
			continue
		case total <= 0: // the probabilities of this group underflowed: any choice is as good
			for range n {
				drawn[s] = append(drawn[s], choices[s][rng.IntN(len(choices[s]))])
			}
			continue
		}
		drawn[s] = make([]int32, 0, n)
		rest := &parts{rounds: func(choice int32) { drawn[s] = append(drawn[s], choice) }}
		for _, j := range choices[s] {
			expected := weights[j] / total * float64(n)
			for range int(expected) {
				drawn[s] = append(drawn[s], j)
			}
			rest.add(of[j], j, expected-math.Floor(expected))
		}
		round.add(rest)
	}
	round.close()
	return drawn
}
