package tree

import (
	"math"
	"math/rand/v2"
	"testing"
)

// joint is a table over all columns, made by hand.
func joint(sizes []int, rng *rand.Rand) []float64 {
	n := 1
	for _, s := range sizes {
		n *= s
	}
	p, sum := make([]float64, n), 0.0
	for i := range p {
		p[i] = rng.ExpFloat64()
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// sums is the table of some columns of a table over all.
func sums(sizes []int, p []float64, columns ...int) []float64 {
	out := make([]float64, cellsOf(sizes, columns))
	digits := make([]int, len(sizes))
	for _, v := range p {
		at := 0
		for _, c := range columns {
			at = at*sizes[c] + digits[c]
		}
		out[at] += v
		for d := len(sizes) - 1; d >= 0; d-- {
			if digits[d]++; digits[d] < sizes[d] {
				break
			}
			digits[d] = 0
		}
	}
	return out
}

// whole is the table over all columns that the tree represents: the product of its potentials.
func whole(t *Tree) []float64 {
	all := make([]int, len(t.sizes))
	for i := range all {
		all[i] = i
	}
	p, sum := make([]float64, cellsOf(t.sizes, all)), 0.0
	maps := make([][]int32, len(t.cliques))
	for i, c := range t.cliques {
		maps[i] = t.index(all, c.columns)
	}
	for i := range p {
		l := 0.0
		for k, c := range t.cliques {
			l += c.log[maps[k][i]]
		}
		p[i] = math.Exp(l)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func distance(a, b []float64) (d float64) {
	for i := range a {
		d = max(d, math.Abs(a[i]-b[i]))
	}
	return d
}

var someSets = [][]int{{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 4}, {5, 6}}
var someSizes = []int{2, 3, 4, 2, 3, 2, 5, 3}

// Messages give the same tables as summing over everything, for cliques and for any two columns.
func TestTablesAreThoseOfThePotentials(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tree := Build(someSizes, someSets)
	for i := range tree.cliques {
		for j := range tree.cliques[i].log {
			tree.cliques[i].log[j] = rng.NormFloat64() * 2
		}
	}
	if !tree.propagate() {
		t.Fatal("nothing is possible")
	}
	p := whole(tree)
	for _, c := range tree.cliques {
		if d := distance(c.p, sums(someSizes, p, c.columns...)); d > 1e-12 {
			t.Errorf("clique %v is off by %g", c.columns, d)
		}
	}
	for a := range someSizes {
		for b := a + 1; b < len(someSizes); b++ {
			if d := distance(tree.Pair(a, b), sums(someSizes, p, a, b)); d > 1e-12 {
				t.Errorf("columns %d and %d are off by %g", a, b, d)
			}
		}
	}
	given, possible := tree.Given([]Factor{{[]int{1}, []float64{0, 1, 0.5}}, {[]int{6}, []float64{1, 0, 0, 0, 1}}})
	if !possible {
		t.Fatal("the conditions are impossible")
	}
	for i := range p {
		at := tree.index([]int{0, 1, 2, 3, 4, 5, 6, 7}, []int{1, 6})[i]
		p[i] *= []float64{0, 1, 0.5}[at/5] * []float64{1, 0, 0, 0, 1}[at%5]
	}
	total := 0.0
	for _, v := range p {
		total += v
	}
	for i := range p {
		p[i] /= total
	}
	for a := range someSizes {
		if d := distance(given.Table([]int{a}), sums(someSizes, p, a)); d > 1e-12 {
			t.Errorf("under conditions column %d is off by %g", a, d)
		}
	}
	if _, possible := tree.Given([]Factor{{[]int{0}, []float64{0, 0}}}); possible {
		t.Error("nothing is allowed, and it is possible")
	}
}

// A fit to exact tables meets them, and columns are independent where the tables say nothing.
func TestFitMeetsTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	p := joint(someSizes, rng)
	tree := Build(someSizes, someSets)
	var measured []Measured
	for _, set := range someSets {
		counts := sums(someSizes, p, set...)
		for i := range counts {
			counts[i] *= 1000
		}
		a, b := set[0], set[1]
		if a > b {
			t.Fatal("columns must rise")
		}
		measured = append(measured, Measured{Columns: []int{a, b}, Counts: counts, Variance: 4})
	}
	loss := tree.Fit(1000, measured, 3000)
	if loss > 1e-3 {
		t.Errorf("the loss is %g", loss)
	}
	for _, m := range measured {
		got := tree.Table(m.Columns)
		for i := range got {
			got[i] *= 1000
		}
		if d := distance(got, m.Counts); d > 0.1 {
			t.Errorf("columns %v are off by %g records of 1000", m.Columns, d)
		}
	}
	seven := tree.Pair(6, 7)
	for i, v := range seven {
		if d := math.Abs(v - tree.Table([]int{6})[i/3]/3); d > 1e-9 {
			t.Errorf("cell %d of columns that nothing ties is off by %g", i, d)
		}
	}
	bigger := Build(someSizes, append([][]int{{1, 3}, {4, 5}}, someSets...))
	bigger.Take(tree)
	if d := distance(bigger.Pair(0, 2), tree.Pair(0, 2)); d > 1e-9 {
		t.Errorf("a larger tree begins %g from the smaller one", d)
	}
}

// Drawn rows have the tree's tables, up to the rounding within groups.
func TestDraw(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	tree := Build(someSizes, someSets)
	for i := range tree.cliques {
		for j := range tree.cliques[i].log {
			tree.cliques[i].log[j] = rng.NormFloat64()
		}
	}
	tree.propagate()
	const rows = 200_000
	cells := tree.Draw(rows, rng)
	for a := range someSizes {
		for b := a + 1; b < len(someSizes); b++ {
			got := make([]float64, someSizes[a]*someSizes[b])
			for row := range rows {
				got[int(cells[a][row])*someSizes[b]+int(cells[b][row])] += 1.0 / rows
			}
			// Each is within 7 deviations of what independent rows would have, or 1 in 1e11 fails.
			for i, want := range tree.Pair(a, b) {
				if d := math.Abs(got[i] - want); d > 7*math.Sqrt(want/rows)+2.0/rows {
					t.Errorf("columns %d and %d, cell %d: %g, want %g", a, b, i, got[i], want)
				}
			}
		}
	}
}
