package evaluate

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition"
)

func TestEqualTablesHavePerfectScoresAndShuffledOnesDoNot(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	for _, name := range []string{"flchain", "adult", "titanic", "boston_housing"} {
		t.Run(name, func(t *testing.T) {
			train, _ := shared(t, name)
			train = train.Subset(count(min(train.Len(), 6000)))
			pairs, marginals, ratio := everything(t, train, train)
			if pairs != 1 || marginals != 0 || ratio > 1e-6 {
				t.Errorf("equal tables: mean of pairs %v, worst marginal %v, ratio %v", pairs, marginals, ratio)
			}
			mixed := shuffled(t, train, train.Len(), 1)
			fallen, apart, _ := everything(t, train, mixed)
			t.Logf("columns drawn one by one: mean of pairs %.3f, worst marginal %.3f", fallen, apart)
			if fallen > 0.99 || apart < 0.1 {
				t.Errorf("columns drawn one by one: mean of pairs %v, worst marginal %v", fallen, apart)
			}
		})
	}
}

// everything checks that equal columns get the best scores, and returns the mean score of pairs, the worst of
// all marginals, and the ratio of the propensity.
func everything(t *testing.T, real, synthetic *partition.Table) (pairs, marginal, ratio float64) {
	t.Helper()
	columns, _, err := CompareColumns(real, synthetic, nil)
	testkit.Must(t, err)
	for _, c := range columns {
		limit := 0.9
		if real == synthetic {
			limit = 1
		}
		if real.Len() > 1000 && (*c.Score < limit || c.MissingSimilarity < limit ||
			c.Wasserstein != nil && *c.Wasserstein > 1-limit) {
			t.Errorf("column %s: %+v", c.Column, c)
		}
	}
	trends, _, err := ComparePairs(real, synthetic, nil, 0)
	testkit.Must(t, err)
	n := 0.0
	for _, p := range trends {
		if p.Score != nil {
			pairs += *p.Score
			n++
		}
	}
	marginals, _, err := CompareMarginals(real, synthetic, nil, MarginalOptions{})
	testkit.Must(t, err)
	for _, m := range marginals {
		marginal = max(marginal, m.Worst)
	}
	p, _, err := ComparePropensity(real, synthetic, nil)
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	return pairs / n, marginal, p.Ratio
}

func TestMeasuresRefuseWhatCannotBeCompared(t *testing.T) {
	s := schemaOf(t, tinySchema)
	good := tableOf(t, s, []float64{1, 1, 0, 0}, []float64{2, math.NaN(), 1, 1})
	other := tableOf(t, schemaOf(t, pairSchema), []float64{1, 1, 0, 0})
	for name, c := range map[string]struct {
		test, synthetic *partition.Table
		weight          []float64
		weights         bool
	}{
		"no synthetic rows":  {good, partition.NewTable(s), nil, false},
		"no real rows":       {partition.NewTable(s), good, nil, false},
		"no real table":      {nil, good, nil, false},
		"no synthetic table": {good, nil, nil, false},
		"other columns":      {good, other, nil, false},
		"a negative weight":  {good, good, []float64{1, -1}, true},
		"weights of zero":    {good, good, []float64{0, 0}, true},
		"a weight too few":   {good, good, []float64{1}, true},
		"a weight of NaN":    {good, good, []float64{1, math.NaN()}, true},
	} {
		for measure, f := range measures(good, c.test, c.synthetic, c.weight) {
			if err := f(); err == nil || errors.Is(err, ErrWeights) != c.weights {
				t.Errorf("%s, %s: %v", measure, name, err)
			}
		}
	}
}

// For any rows the measures neither fail nor panic, and scores keep their bounds.
func TestMeasuresOfAnyRows(t *testing.T) {
	s := schemaOf(t, `name: any
task: binary
label: label
positive: 1
columns:
  - {name: n, kind: integer, lower: -2, upper: 2, nullable: true}
  - {name: v, kind: continuous, lower: -8.0e+307, upper: 8.0e+307}
  - {name: k, kind: categorical, categories: [only], nullable: true}
  - {name: c, kind: categorical, categories: [a, b, c]}
  - {name: b, kind: binary, lower: 0, upper: 1, nullable: true}
  - {name: label, kind: binary, lower: 0, upper: 1}
`)
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		draw := func(name string) *partition.Table {
			empty, levels := rapid.Float64Range(0, 1).Draw(t, name+" empty"),
				rapid.IntRange(1, 3).Draw(t, name+" levels")
			out := partition.NewTable(s)
			for range rapid.IntRange(1, 12).Draw(t, name+" rows") {
				cells := []float64{float64(random.IntN(levels)),
					[]float64{0, 1, -8e307, 8e307, 1e-300}[random.IntN(5)], 0,
					float64(random.IntN(levels)), float64(random.IntN(min(levels, 2))),
					float64(random.IntN(min(levels, 2)))}
				for _, j := range []int{0, 2, 4} {
					if random.Float64() < empty {
						cells[j] = math.NaN()
					}
				}
				if err := out.Append(cells, ""); err != nil {
					t.Fatal(err)
				}
			}
			return out
		}
		train, test, synthetic := draw("train"), draw("test"), draw("synthetic")
		weight := make([]float64, synthetic.Len())
		for i := range weight {
			weight[i] = []float64{0, 1, 1e-310, 3, 1e300}[random.IntN(5)]
		}
		weight[0] = 1
		for name, f := range measures(train, test, synthetic, weight) {
			if err := f(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		unit := func(what string, v float64) {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("%s is %v", what, v)
			}
		}
		columns, _, _ := CompareColumns(test, synthetic, weight)
		for _, c := range columns {
			unit("missing similarity", c.MissingSimilarity)
			if c.Score != nil {
				unit("score of "+c.Column, *c.Score)
			}
			if c.Wasserstein != nil {
				unit("wasserstein of "+c.Column, *c.Wasserstein)
			}
		}
		pairs, _, _ := ComparePairs(test, synthetic, weight, 0)
		for _, p := range pairs {
			if p.Score != nil {
				unit("score of a pair", *p.Score)
			}
		}
		marginals, _, _ := CompareMarginals(test, synthetic, nil, MarginalOptions{})
		back, _, _ := CompareMarginals(synthetic, test, nil, MarginalOptions{})
		for k, m := range marginals {
			unit("mean", m.Mean)
			unit("worst", m.Worst)
			if math.Abs(m.Mean-back[k].Mean) > 1e-12 {
				t.Fatalf("%d-way: %v, the other way round %v", m.Ways, m.Mean, back[k].Mean)
			}
		}
		if p, _, _ := ComparePropensity(test, synthetic, weight); p != nil {
			unit("pmse", p.PMSE)
		}
		if c, _, _ := CompareCloseness(train, test, synthetic, weight, ClosenessOptions{}); c != nil {
			for _, v := range []float64{c.CopiesTrain, c.CopiesTest, c.DistanceTrain, c.DistanceTest, c.CloserToTrain,
				c.MembershipAUROC} {
				unit("closeness", v)
			}
		}
	})
}
