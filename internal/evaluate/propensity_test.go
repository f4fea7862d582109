package evaluate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate/weighted"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const flagSchema = `name: flags
task: none
columns:
  - {name: d, kind: binary, lower: 0, upper: 1}
  - {name: e, kind: binary, lower: 0, upper: 1}
`

// If a single column varies, the propensity scores are the shares of synthetic rows for each value.
func TestComparePropensityByHand(t *testing.T) {
	s := schemaOf(t, flagSchema)
	real := tableOf(t, s, []float64{0, 1}, []float64{0, 1}, []float64{0, 1}, []float64{1, 1})
	synthetic := tableOf(t, s, []float64{0, 1}, []float64{1, 1}, []float64{1, 1}, []float64{1, 1})
	got, notes, err := ComparePropensity(real, synthetic, nil)
	if err != nil || got == nil {
		t.Fatalf("%v, %v", got, err)
	}
	// 1/4 of those of 0 and 3/4 of those of 1 are synthetic; c = 1/2, k = 2, N = 8.
	if math.Abs(got.PMSE-1.0/16) > 1e-6 || math.Abs(got.Ratio-(1.0/16)/(0.125/8)) > 1e-4 {
		t.Errorf("%+v", got)
	}
	if got.RatioOfEqual != 2 || len(notes) != 0 {
		t.Errorf("ratio of equal distributions %v, notes %q", got.RatioOfEqual, notes)
	}
	// Equal weights of any size change nothing, and a weight of 0 removes the row.
	for _, w := range [][]float64{{3, 3, 3, 3, 0}, {1e-300, 1e-300, 1e-300, 1e-300, 0}} {
		more := tableOf(t, s, []float64{0, 1}, []float64{1, 1}, []float64{1, 1}, []float64{1, 1}, []float64{0, 0})
		if again, _, err := ComparePropensity(real, more, w); err != nil || math.Abs(again.PMSE-got.PMSE) > 1e-12 {
			t.Errorf("weights %v: %+v, %v", w, again, err)
		}
	}
	same, _, err := ComparePropensity(real, real, nil)
	if err != nil || same.PMSE > 1e-15 || same.Ratio > 1e-12 {
		t.Errorf("a table against itself: %+v, %v", same, err)
	}
	// Rows that can be separated have no finite maximum, but scores of 0 and 1.
	ones, zeros := tableOf(t, s, []float64{1, 1}, []float64{1, 0}), tableOf(t, s, []float64{0, 1}, []float64{0, 0})
	apart, notes, err := ComparePropensity(ones, zeros, nil)
	if err != nil || math.Abs(apart.PMSE-0.25) > 1e-3 || len(notes) != 0 {
		t.Errorf("rows told apart: %+v, %q, %v", apart, notes, err)
	}
	constant := tableOf(t, s, []float64{1, 1}, []float64{1, 1})
	if none, notes, err := ComparePropensity(constant, constant, nil); err != nil || none != nil || len(notes) != 1 {
		t.Errorf("constant columns: %+v, %q, %v", none, notes, err)
	}
}

func TestPropensityScoresEqualThoseOfScikitLearn(t *testing.T) {
	text := testkit.Read(t, "measure/testdata/reference.json")
	var all struct {
		Propensity []struct {
			Synthetic          []bool
			Propensity, Weight []float64
			Weighted           []float64 `json:"propensity_of_weighted_fit"`
			X                  [][]float64
		}
	}
	testkit.Must(t, json.Unmarshal(text, &all))
	for _, c := range all.Propensity {
		rows := &sparse{width: 3, start: []int{0}}
		ones := make([]float64, len(c.X))
		for i, x := range c.X {
			rows.at, rows.value = append(rows.at, 0, 1, 2), append(rows.value, 1, x[0], x[1])
			rows.start = append(rows.start, len(rows.at))
			ones[i] = 1
		}
		for _, fit := range []struct{ weight, want []float64 }{{ones, c.Propensity}, {c.Weight, c.Weighted}} {
			made, total := 0.0, 0.0
			for i, w := range fit.weight {
				if total += w; c.Synthetic[i] {
					made += w
				}
			}
			scores, rank, converged := logistic(rows, c.Synthetic, fit.weight, made/total)
			if rank != 3 || !converged {
				t.Errorf("rank %d, converged %v", rank, converged)
			}
			for i, want := range fit.want {
				if math.Abs(scores[i]-want) > 1e-7 {
					t.Fatalf("score %d is %v, want %v", i, scores[i], want)
				}
			}
		}
	}
}

// Dependent columns must not be counted as parameters.
func TestPropensityCountsIndependentParameters(t *testing.T) {
	s := schemaOf(t, `name: twice
task: none
columns:
  - {name: c, kind: categorical, categories: [a, b, c, never], nullable: true}
  - {name: n, kind: integer, lower: 0, upper: 2}
  - {name: m, kind: integer, lower: 10, upper: 12, nullable: true}
`)
	random := rand.New(rand.NewPCG(1, 1))
	table := func() *partition.Table {
		out := partition.NewTable(s)
		for range 200 {
			v := float64(random.IntN(3))
			testkit.Must(t, out.Append([]float64{v, v, 12 - v}, ""))
		}
		return out
	}
	got, _, err := ComparePropensity(table(), table(), nil)
	testkit.Must(t, err)
	// (k-1) (1-c)^2 c / N with k = 3, c = 1/2 and N = 400.
	if want := got.PMSE / (2 * 0.125 / 400); math.Abs(got.Ratio-want) > 1e-9*want {
		t.Errorf("ratio %v, want %v of three parameters", got.Ratio, want)
	}
}

// For independent tables of one distribution the ratio is 1/(1-c) on average, also with weights, which make c
// smaller.
func TestPropensityOfEqualDistributions(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	s := schemaOf(t, tinySchema)
	random := rand.New(rand.NewPCG(3, 4))
	table := func(n int) *partition.Table {
		out := partition.NewTable(s)
		for range n {
			cells := []float64{float64(random.IntN(100)), random.Float64() * 3, float64(random.IntN(3)),
				float64(random.IntN(2))}
			testkit.Must(t, out.Append(cells, ""))
		}
		return out
	}
	for _, uneven := range []bool{false, true} {
		const n, times = 400, 120
		w := make([]float64, n)
		for i := range w {
			w[i] = 1
			if uneven {
				w[i] = random.ExpFloat64()
			}
		}
		c := weighted.EffectiveSize(w) / (weighted.EffectiveSize(w) + n)
		mean := 0.0
		for range times {
			p, _, err := ComparePropensity(table(n), table(n), w)
			testkit.Must(t, err)
			mean += p.Ratio * (1 - c) / times
		}
		t.Logf("c = %.3f: mean ratio times 1-c is %.3f", c, mean)
		if mean < 0.9 || mean > 1.1 {
			t.Errorf("c = %.3f: mean ratio times 1-c is %.3f, want about 1", c, mean)
		}
	}
}

func TestPropensityStatesTheRatioOfEqualDistributions(t *testing.T) {
	s := schemaOf(t, flagSchema)
	one, other := []float64{0, 0}, []float64{1, 1}
	p, _, err := ComparePropensity(tableOf(t, s, one, other), tableOf(t, s, one, one, other, other, one, other), nil)
	testkit.Must(t, err)
	if p.RatioOfEqual != 4 { // of synthetic rows there are three quarters
		t.Errorf("ratio %v, want 4", p.RatioOfEqual)
	}
}
