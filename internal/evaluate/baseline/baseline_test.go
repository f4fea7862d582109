package baseline

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

const schemaText = `name: b
task: binary
label: y
positive: 1
columns:
  - {name: x, kind: continuous, lower: -10, upper: 10}
  - {name: c, kind: categorical, categories: [r, g, b], nullable: true}
  - {name: y, kind: binary}
`

// rows have a category and a label that follow from the number, with few exceptions.
func rows(t *testing.T, schema *partition.Schema, n int, seed uint64) *partition.Table {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	table := partition.NewTable(schema)
	for range n {
		x, c, y := r.NormFloat64(), 0.0, 0.0
		if x > 0 {
			c, y = 1, 1
		}
		if r.IntN(50) == 0 {
			c = math.NaN()
		}
		testkit.Must(t, table.Append([]float64{x, c, y}, ""))
	}
	return table
}

// Shuffled rows have the real columns without their dependence; other real rows have both.
func TestBaselinesLieOnBothSides(t *testing.T) {
	schema := partitiontest.Schema(t, schemaText)
	in := evaluate.Input{
		Synthetic: rows(t, schema, 800, 1), Test: rows(t, schema, 700, 2), Train: rows(t, schema, 900, 4),
		Models: []string{"logistic regression"},
	}
	e := &evaluate.Evaluation{Utility: []evaluate.ModelUtility{{A: &evaluate.Ranking{AUROC: 0.97}}, {}}}
	testkit.Must(t, Add(t.Context(), e, in))
	independent, real := e.Baselines.Independent, e.Baselines.Real
	if *independent.Columns < 0.95 || *real.Columns < 0.95 {
		t.Errorf("single columns: independent %v, real %v", *independent.Columns, *real.Columns)
	}
	if *independent.Pairs > 0.8 || *real.Pairs < 0.93 {
		t.Errorf("pairs: independent %v, real %v", *independent.Pairs, *real.Pairs)
	}
	if math.Abs(*independent.AUROC-0.5) > 0.25 || *real.AUROC != 0.97 {
		t.Errorf("AUROC: independent %v, real %v", *independent.AUROC, *real.AUROC)
	}
	if len(independent.Marginals) != 3 || independent.Marginals[1] < real.Marginals[1]+0.1 {
		t.Errorf("marginals: independent %v, real %v", independent.Marginals, real.Marginals)
	}
	if *independent.PMSERatio <= 0 || e.Unseen.Rows > 0 || e.Unseen.Independent < 0.3 {
		t.Errorf("ratio %v, unseen %+v", *independent.PMSERatio, e.Unseen)
	}
	in.Train = nil
	testkit.Must(t, Add(t.Context(), e, in))
	if e.Baselines.Real != nil {
		t.Error("there is a baseline of real rows without any")
	}
	if h := e.Baselines.Halves; math.Abs(*h.Pairs-*real.Pairs) > 0.06 || *h.WorstPair > *h.Pairs ||
		*h.WorstColumn > *h.Columns || *h.WorstColumn == 1 {
		t.Errorf("halves of the test rows: %+v, training rows: %+v", h, real)
	}
}

func TestIndependentKeepsColumns(t *testing.T) {
	table := rows(t, partitiontest.Schema(t, schemaText), 300, 1)
	shuffled := Independent(table)
	moved := false
	for j := range 3 {
		var before, after []float64
		for i := range table.Len() {
			before, after = append(before, table.Cells(i)[j]), append(after, shuffled.Cells(i)[j])
			moved = moved || before[i] != after[i]
		}
		slices.Sort(before)
		slices.Sort(after)
		if !slices.EqualFunc(before, after, func(a, b float64) bool { return a == b || a != a && b != b }) {
			t.Errorf("column %d has other values", j)
		}
	}
	if !moved {
		t.Error("no cell moved")
	}
}

func TestUnseenCombinations(t *testing.T) {
	schema := partitiontest.Schema(t, schemaText)
	table := func(cells ...[]float64) *partition.Table {
		made := partition.NewTable(schema)
		for _, c := range cells {
			testkit.Must(t, made.Append(c, ""))
		}
		return made
	}
	real := table([]float64{0, 0, 0}, []float64{0, 1, 1})
	synthetic := table([]float64{0, 0, 1}, []float64{1, 0, 1}, []float64{0, math.NaN(), 1}, []float64{3, 1, 1})
	u := Unseen([]*partition.Table{real}, synthetic, real)
	if u.Kinds != 2 || math.Abs(u.Rows-0.75) > 1e-12 || u.Independent != 0 || u.Against != 2 {
		t.Fatalf("%+v", u)
	}
	first, second := u.Combinations[0], u.Combinations[1]
	if first.Columns != [2]string{"c", "y"} || first.Values != [2]string{"r", "1"} || first.Rows != 0.5 ||
		second.Values != [2]string{"(empty)", "1"} || second.Rows != 0.25 {
		t.Errorf("%+v, %+v", first, second)
	}
}
