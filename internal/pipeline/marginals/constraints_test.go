package marginals

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const stays = `columns:
  - {name: ward, kind: categorical, categories: [adult, child, birth, other]}
  - {name: sex, kind: categorical, categories: [F, M], nullable: true}
  - {name: age, kind: integer, lower: 0, upper: 1000}
  - {name: came, kind: integer, lower: 1, upper: 366}
  - {name: left, kind: integer, lower: 1, upper: 366}
  - {name: low, kind: continuous, lower: 0, upper: 100, spikes: [12.3456789012]}
  - {name: high, kind: continuous, lower: 0, upper: 100, nullable: true}
  - {name: code, kind: integer, lower: 0, upper: 99999}
constraints:
  - {never: {ward: birth, sex: M}}
  - {if: {ward: child}, then: {age: "<=17"}}
  - {less: [came, left]}
  - {at_most: [low, high]}
  - {column: code, follows: ward, as: {adult: 70123, child: 70124, birth: 9}}
  - {never: {ward: other, sex: "", age: ">=500"}}
`

// staying are rows that meet the constraints.
func staying(n int) (rows [][]float64) {
	rng := rand.New(rand.NewPCG(8, 7))
	for range n {
		ward, sex, age := float64(rng.IntN(4)), float64(rng.IntN(2)), float64(18+rng.IntN(80))
		came := float64(1 + rng.IntN(364))
		low, high := 12.3456789012, math.NaN()
		if rng.IntN(3) > 0 {
			low = 50 * rng.Float64()
			high = low + 10*rng.Float64()
		}
		switch ward {
		case 1:
			age = float64(rng.IntN(18))
		case 2:
			sex = 0
		}
		code := []float64{70123, 70124, 9, float64(rng.IntN(100_000))}[int(ward)]
		rows = append(rows, []float64{ward, sex, age, came, min(366, came+1+float64(rng.IntN(9))), low, high, code})
	}
	return rows
}

// No row breaks a constraint, also with conditions, for a saved model and for one that learned next to nothing.
// Spikes are drawn as they are.
func TestRowsMeetConstraints(t *testing.T) {
	rows := staying(4000)
	for _, epsilon := range []float64{0.05, 3} {
		s, _ := learnedBy(t, stays, rows, epsilon)
		dir := t.TempDir()
		testkit.Must(t, s.model.Save(dir))
		m, err := pipeline.LoadModel(dir, modelKind)
		testkit.Must(t, err)
		schema := m.Schema()
		for _, texts := range [][]string{nil, {"ward=birth"}, {"came>300", "low>=40"}, {"age>100", "ward=other"}} {
			n := 4000
			switch {
			case epsilon < 1: // nearly all rows of a model of noise are dropped
				n = 100
			case texts != nil:
				n = 1000
			}
			table, err := m.Sample(n, conditions(t, texts...), rand.New(rand.NewPCG(3, 4)))
			testkit.Must(t, err)
			if table.Len() != n {
				t.Fatalf("%d rows", table.Len())
			}
			for i := range table.Len() {
				if n := schema.Broken(table.Cells(i)); n > 0 {
					t.Fatalf("epsilon %v: row %v breaks constraint %d", epsilon, table.Cells(i), n)
				}
			}
			if texts != nil || epsilon < 1 {
				continue
			}
			// In most cells of came and left with rows, some rows are dropped. More rows are drawn there;
			// otherwise 2752 would remain where 3661 are right.
			near := 0
			for i := range table.Len() {
				if r := table.Cells(i); int(r[3]/61) == int(r[4]/61) {
					near++
				}
			}
			if near < 2950 {
				t.Errorf("%d of 4000 rows came and left in the same two months", near)
			}
			for name, of := range map[string]func([]float64) bool{
				"birth":        func(r []float64) bool { return r[0] == 2 },
				"the spike":    func(r []float64) bool { return r[5] == 12.3456789012 },
				"summer":       func(r []float64) bool { return r[3] > 170 && r[3] <= 260 },
				"empty and 50": func(r []float64) bool { return math.IsNaN(r[6]) && r[5] < 50 },
			} {
				want, got := 0.0, 0.0
				for i, row := range rows {
					if of(row) {
						want++
					}
					if of(table.Cells(i)) {
						got++
					}
				}
				if math.Abs(want-got) > 0.05*4000 {
					t.Errorf("%s: %v of 4000 rows, %v of those made", name, want, got)
				}
			}
		}
		if _, err := m.Sample(1, conditions(t, "ward=birth", "sex=M"), rand.New(rand.NewPCG(3, 4))); err == nil ||
			!strings.Contains(err.Error(), "ward=birth") {
			t.Errorf("rows that break a constraint are asked for, and the error is %v", err)
		}
	}
}

// Two dates with a stay of few days: where both are in one cell, each keeps its distribution and their distance stays
// short. Rows under conditions are distributed as the rows without any that meet them.
func TestOrderedNumbersAreDrawnByRank(t *testing.T) {
	rng, rows := rand.New(rand.NewPCG(2, 3)), [][]float64(nil)
	for range 40_000 {
		came := float64(1 + rng.IntN(3000))
		rows = append(rows, []float64{float64(rng.IntN(2)), came, came + float64(rng.IntN(9))})
	}
	s, _ := learnedBy(t, `columns:
  - {name: sex, kind: binary}
  - {name: came, kind: integer, lower: 0, upper: 3100}
  - {name: left, kind: integer, lower: 0, upper: 3100}
constraints:
  - {at_most: [came, left]}
`, rows, 1)
	drawn, err := s.model.Sample(100_000, nil, rand.New(rand.NewPCG(3, 4)))
	testkit.Must(t, err)
	short, early := 0, 0.0
	for i := range drawn.Len() {
		r := drawn.Cells(i)
		if early += r[1]; r[2]-r[1] <= 8 {
			short++
		}
	}
	// In real rows all stays are as short, and the mean first day is 1500. Drawn independently within cells, and again
	// if they break the order, 13,306 of 100,000 stays were short, and the mean was 1478.
	if mean := early / 100_000; short < 80_000 || math.Abs(mean-1500) > 10 {
		t.Errorf("%d short stays of 100,000, from day %.1f on average", short, mean)
	}
	for _, texts := range [][]string{{"came>=700", "left<777"}, {"came>2222"}, {"left=1333"}} {
		where := conditions(t, texts...)
		count := func(table *partition.Table, all bool) (met float64, by [32]float64) {
			for i := range table.Len() {
				r, meets := table.Cells(i), true
				for _, w := range where {
					at, of, err := w.On(s.model.schema)
					testkit.Must(t, err)
					meets = meets && of(r[at])
				}
				if !meets && !all {
					t.Fatalf("%v: row %v", texts, r)
				}
				if meets {
					met++
					by[int(r[1])/100]++
				}
			}
			return met, by
		}
		met, want := count(drawn, true)
		given, err := s.model.Sample(20_000, where, rand.New(rand.NewPCG(5, 6)))
		testkit.Must(t, err)
		_, got := count(given, false)
		for i := range want {
			p, q := want[i]/met, got[i]/20_000
			if d := math.Abs(p - q); d > 7*math.Sqrt(max(p, q, 0.001)*(1/met+1.0/20_000)) {
				t.Errorf("%v: came in hundred %d with share %.4f, of all rows that meet it %.4f", texts, i, q, p)
			}
		}
	}
}

// Eight numbers in rising order, close to each other: independent draws from their cells hardly ever are in order.
func TestAChainOfOrdersHasRows(t *testing.T) {
	rng, rows := rand.New(rand.NewPCG(2, 3)), [][]float64(nil)
	for range 5000 {
		row := []float64{rng.Float64()}
		for range 7 {
			row = append(row, row[len(row)-1]+0.001*rng.Float64())
		}
		rows = append(rows, row)
	}
	schema := "columns:\n"
	for i := range 8 {
		schema += fmt.Sprintf("  - {name: d%d, kind: continuous, lower: 0, upper: 1.1}\n", i)
	}
	schema += "constraints:\n"
	for i := range 7 {
		schema += fmt.Sprintf("  - {less: [d%d, d%d]}\n", i, i+1)
	}
	s, _ := learnedBy(t, schema, rows, 1)
	for _, texts := range [][]string{nil, {"d3>=0.5"}} {
		const rows = 200
		table, err := s.model.Sample(rows, conditions(t, texts...), rand.New(rand.NewPCG(3, 4)))
		testkit.Must(t, err)
		for i := range table.Len() {
			r := table.Cells(i)
			if n := table.Schema().Broken(r); n > 0 || texts != nil && r[3] < 0.5 {
				t.Fatalf("%v: row %v breaks constraint %d", texts, r, n)
			}
		}
		if table.Len() != rows {
			t.Errorf("%d rows", table.Len())
		}
	}
}

func conditions(t testing.TB, texts ...string) (where []pipeline.Condition) {
	t.Helper()
	for _, text := range texts {
		c, err := pipeline.ParseCondition(text)
		testkit.Must(t, err)
		where = append(where, c)
	}
	return where
}

// Tables that are hard to model either work or are refused by the plan, before anything is asked.
func TestOddTables(t *testing.T) {
	list := make([]string, 10_000)
	for i := range list {
		list[i] = fmt.Sprintf("c%04d", i)
	}
	codes := "[" + strings.Join(list, ", ") + "]"
	for name, tc := range map[string]struct {
		columns string
		row     []float64
		want    string // of the error; empty if it works
	}{
		"one column":   {"  - {name: a, kind: integer, lower: 0, upper: 9}\n", []float64{3}, ""},
		"one category": {"  - {name: a, kind: categorical, categories: [only]}\n", []float64{0}, ""},
		"one value twice": {"  - {name: a, kind: categorical, categories: [only]}\n  - {name: b, kind: categorical, " +
			"categories: [only]}\n", []float64{0, 0}, ""},
		"all empty": {"  - {name: a, kind: continuous, lower: 0, upper: 9, nullable: true}\n  - {name: b, kind: " +
			"binary, nullable: true}\n", []float64{math.NaN(), math.NaN()}, ""},
		"10000 codes": {"  - {name: a, kind: categorical, categories: " + codes + "}\n  - {name: b, kind: binary}\n",
			[]float64{4711, 1}, ""},
		"10000 codes twice": {"  - {name: a, kind: categorical, categories: " + codes + "}\n  - {name: b, kind: " +
			"categorical, categories: " + codes + "}\n", nil, "the tables of 2 columns and of pairs of them have " +
			`100020000 cells, and 2000000 are the most; use a schema with fewer categories; column "a" has 10000`},
		"10000 codes in 210 columns": {"  - {name: x, kind: integer, lower: 0, upper: 999}\n  - {name: a, kind: " +
			"categorical, repeat: 210, categories: " + codes + "}\n", nil, "the tables of 211 columns have 2100218 " +
			`cells, and 2000000 are the most; use a schema with fewer categories; column "a_0" has 10000`},
		"10000 codes with 8 numbers": {"  - {name: a, kind: categorical, categories: " + codes + "}\n  - {name: x, " +
			"kind: integer, lower: 0, upper: 999, repeat: 8}\nlabel: a\n", nil, "lower marginals.cells"},
		"codes in a constraint": {"  - {name: a, kind: categorical, categories: " + codes + "}\n  - {name: b, kind: " +
			"integer, lower: 0, upper: 99}\nconstraints:\n  - {never: {a: c0007, b: 3}}\n", nil,
			"marginals.size is"},
		"many columns": {"  - {name: x, kind: continuous, lower: 0, upper: 1, repeat: 300}\n", nil, ""},
	} {
		schema, err := partition.ParseSchema([]byte("columns:\n" + tc.columns))
		testkit.Must(t, err)
		train := trainingOf(t, schema)
		budget, err := privacy.NewBudget(1, 1e-5)
		testkit.Must(t, err)
		err = train.Plan(&plan.Plan{Classes: 1}, budget)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, tc.want)
		}
		if tc.row == nil || err != nil {
			continue
		}
		rows := make([][]float64, 2000)
		for i := range rows {
			rows[i] = tc.row
		}
		s, _ := learnedBy(t, "columns:\n"+tc.columns, rows, 3)
		table, err := s.model.Sample(1000, nil, rand.New(rand.NewPCG(3, 4)))
		testkit.Must(t, err)
		same := 0
		for i := range table.Len() {
			if got := table.Cells(i)[0]; got == tc.row[0] || math.IsNaN(got) && math.IsNaN(tc.row[0]) {
				same++
			}
		}
		if same < 900 {
			t.Errorf("%s: %d of 1000 rows have the one value of the column", name, same)
		}
	}
}
