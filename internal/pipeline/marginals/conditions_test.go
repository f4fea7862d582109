package marginals

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// exactly returns the distribution of a column's fine cells under conditions, from the model's files alone: the
// sum over all combinations of cells of the product of the cliques' tables. In a fine cell of a number the
// conditions leave a share of the values.
func exactly(m *model, column int, left func(column, fine int) float64) []float64 {
	sizes := m.sizes()
	inCell := make([][]float64, len(m.columns)) // the share of each cell that the conditions leave
	for i, c := range m.columns {
		inCell[i] = make([]float64, sizes[i])
		for fine, cell := range c.of {
			inCell[i][cell] += float64(c.shares[fine]) * left(i, fine)
		}
	}
	of := make([]float64, sizes[column]) // of its cells, without the conditions
	row := make([]int, len(m.columns))
	var visit func(clique int, p float64)
	visit = func(clique int, p float64) {
		if p == 0 {
			return
		}
		if clique == len(m.cliques) {
			for i, cell := range row {
				if i != column {
					p *= inCell[i][cell]
				}
			}
			of[row[column]] += p
			return
		}
		c := m.cliques[clique]
		var above []int
		if c.Parent >= 0 {
			above = m.cliques[c.Parent].Columns
		}
		matches, sum := []int{}, 0.0
		for at, p := range m.tables[clique] {
			fits, rest := true, at
			for d := len(c.Columns) - 1; d >= 0; d-- {
				size := sizes[c.Columns[d]]
				for _, a := range above {
					fits = fits && (a != c.Columns[d] || row[a] == rest%size)
				}
				rest /= size
			}
			if fits {
				matches, sum = append(matches, at), sum+float64(p)
			}
		}
		for _, at := range matches {
			rest := at
			for d := len(c.Columns) - 1; d >= 0; d-- {
				size := sizes[c.Columns[d]]
				row[c.Columns[d]] = rest % size
				rest /= size
			}
			visit(clique+1, p*float64(m.tables[clique][at])/sum)
		}
	}
	visit(0, 1)
	out, sum := make([]float64, len(m.columns[column].of)), 0.0
	for fine, cell := range m.columns[column].of {
		out[fine] = of[cell] * float64(m.columns[column].shares[fine]) * left(column, fine)
		sum += out[fine]
	}
	for fine := range out {
		out[fine] /= sum
	}
	return out
}

// Drawn rows have the exact conditional of the model: conditions on several columns, ranges that cut
// through cells, and empty cells.
func TestConditionsAreExact(t *testing.T) {
	s, _ := learnedBy(t, `columns:
  - {name: a, kind: integer, lower: 0, upper: 9}
  - {name: b, kind: continuous, lower: 0, upper: 1, nullable: true}
  - {name: c, kind: categorical, categories: [u, v, w]}
  - {name: d, kind: integer, lower: 0, upper: 5000}
`, abcd(3000), 3)
	m := s.model
	for _, texts := range [][]string{
		{"a>=3", "a<7", "c=v"}, {"b<=0.37", "d>1234", "a<=8"}, {"b=", "c=w"}, {"d<4000", "a<=4"},
	} {
		where := conditions(t, texts...)
		const n = 30_000
		table, err := m.Sample(n, where, rand.New(rand.NewPCG(5, 6)))
		testkit.Must(t, err)
		for _, w := range where {
			at, meets, err := w.On(m.schema)
			testkit.Must(t, err)
			for i := range n {
				if cell := table.Cells(i)[at]; !meets(cell) {
					t.Fatalf("%v: a row has %v in column %d", texts, cell, at)
				}
			}
		}
		left := func(column, fine int) float64 {
			share := 1.0
			for _, w := range where {
				if at, meets, err := w.On(m.schema); err == nil && at == column {
					share = min(share, leftOf(&m.columns[column], fine, meets))
				}
			}
			return share
		}
		for column := range m.columns {
			c := &m.columns[column]
			want, got := exactly(m, column, left), make([]float64, len(c.of))
			for i := range n {
				got[c.plainCell(table.Cells(i)[column])] += 1.0 / n
			}
			for fine := range want {
				// Allow 6 deviations of independent rows, plus the error of the grid of leftOf.
				if d := math.Abs(got[fine] - want[fine]); d > 6*math.Sqrt(want[fine]/n)+2e-3 {
					t.Errorf("%v: fine cell %d of column %d has %.4f of the rows, want %.4f", texts, fine, column,
						got[fine], want[fine])
				}
			}
		}
	}
}

// leftOf is the share of a fine cell's values that meet a condition, by a grid of them.
func leftOf(c *drawn, fine int, meets func(float64) bool) float64 {
	const grid = 1000
	if !isNumber(c.cells.of) || fine >= len(c.from) {
		v := float64(fine)
		if c.cells.of.Nullable && fine == len(c.of)-1 {
			v = math.NaN()
		}
		if meets(v) {
			return 1
		}
		return 0
	}
	met, all := 0.0, 0.0
	lo, hi := c.span(fine)
	for i := range grid {
		v := lo + (hi-lo)*(float64(i)+0.5)/grid
		if c.cells.of.Kind == partition.Integer {
			if v = math.Ceil(lo) + float64(i); v >= hi {
				break
			}
		}
		if all++; meets(v) {
			met++
		}
	}
	return met / all
}

// abcd are rows whose columns depend on each other.
func abcd(n int) (rows [][]float64) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range n {
		a := float64(rng.IntN(10))
		b, c, d := rng.Float64()*(a+1)/10, float64(rng.IntN(3)), math.Round(5000*rng.Float64()*rng.Float64())
		if rng.IntN(10) < int(a) {
			c = 1
		}
		if c == 2 && rng.IntN(2) == 0 {
			b = math.NaN()
		}
		rows = append(rows, []float64{a, b, c, d})
	}
	return rows
}

// Rows that are rare are drawn. If that takes too long, they are not called impossible: the error says how rare they
// are, and what helps.
func TestRareConditions(t *testing.T) {
	const diagonal = "columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n" +
		"  - {name: y, kind: continuous, lower: 0, upper: 1}\nconstraints:\n  - {at_most: [x, y]}\n"
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([][]float64, 2000)
	for i := range rows {
		x := rng.Float64()
		rows[i] = []float64{x, x + (1-x)*rng.Float64()/10}
	}
	s, _ := learnedBy(t, diagonal, rows, 3)
	where := conditions(t, "x>0.4999", "y<0.5") // of 400,000 independent draws from the cells 2 are such rows
	table, err := s.model.Sample(300, where, rand.New(rand.NewPCG(1, 1)))
	testkit.Must(t, err)
	for i := range table.Len() {
		if r := table.Cells(i); r[0] <= 0.4999 || r[1] >= 0.5 || r[0] > r[1] {
			t.Fatalf("row %v", r)
		}
	}
	const want = "fewer than one in 1000 rows of the model with [x>0.4999 y<0.5] meets the schema's constraints; ask " +
		"for fewer rows, or ask for a wider condition"
	if err := (&tooRare{4000, 3, where}); !errors.Is(err, pipeline.ErrCondition) || err.Error() != want {
		t.Errorf("the error is %v", err)
	}
	if text := (&tooRare{tried: 100}).Error(); !strings.HasSuffix(text, "train with a larger budget") {
		t.Error(text)
	}
}

// Conditions that no row can meet cause an error that says so.
func TestImpossibleConditions(t *testing.T) {
	s, _ := learned(t, people(2000), 3)
	for texts, want := range map[string]string{
		"hours>40 hours<30": "hours>40 hours<30",
		"hours>=101":        "outside the bounds",
		"hours=":            "empty",
		"years<":            "an empty value has no order",
		"school=none":       "not one of the schema's categories",
		"school<mid":        "no order",
		"height=3":          "no such column",
		"label=1 label=0":   "label=1 label=0",
	} {
		_, err := s.model.Sample(5, conditions(t, strings.Fields(texts)...), rand.New(rand.NewPCG(1, 1)))
		if !errors.Is(err, pipeline.ErrCondition) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: error %v, want one with %q", texts, err, want)
		}
	}
}
