package quality

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const schemaText = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1, nullable: true}
  - {name: c, kind: categorical, categories: [u, v, w]}
  - {name: y, kind: binary}
label: y
`

// rows returns n rows whose x tends to be low where y is low; a larger tilt makes this stronger.
func rows(schema *partition.Schema, n int, tilt float64, rng *rand.Rand) *partition.Table {
	t := partition.NewTable(schema)
	for range n {
		y := float64(rng.IntN(2))
		x := math.Pow(rng.Float64(), 1+tilt*y)
		if rng.IntN(10) == 0 {
			x = math.NaN()
		}
		t.Push([]float64{x, float64(rng.IntN(3)), y}, "")
	}
	return t
}

// asker releases the counts of rows with noise of the plan.
type asker struct {
	real     *partition.Table
	sigma    float64
	rng      *rand.Rand
	entries  int // of the release; 0 means the number that was asked for
	baseline bool
	asked    []*conclavev1.Round
}

func (a *asker) Ask(_ context.Context, stage string, r *conclavev1.Round) (*conclavev1.Release, error) {
	if stage != name {
		return nil, fmt.Errorf("stage %q", stage)
	}
	a.asked = append(a.asked, proto.CloneOf(r))
	counting, err := marginals.NewCounting(a.real.Schema(), parts, a.sigma)
	if err != nil {
		return nil, err
	}
	sum := counting.Sum(a.real)
	for i := range sum {
		sum[i] += int64(math.Round(a.rng.NormFloat64() * a.sigma * float64(counting.Bound())))
	}
	if a.entries > 0 {
		sum = sum[:a.entries]
	}
	return &conclavev1.Release{LedgerHash: "paid", Teachers: 2, EpsilonSpent: 0.9,
		Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: sum}}}, nil
}

func (*asker) AskReduced(context.Context, string, *conclavev1.Round) (*conclavev1.Release, error) {
	panic("not asked")
}

func (*asker) AskCached(context.Context, string, *conclavev1.Round, *conclavev1.Round) (*conclavev1.Release, error) {
	panic("not asked")
}
func (*asker) Teachers() int    { return 2 }
func (a *asker) Baseline() bool { return a.baseline }

// session is the state after a training with the class counts of real rows. It asks for the figure with half of
// epsilon 1.
func session(t *testing.T, real *partition.Table) (*pipeline.Session, *asker) {
	t.Helper()
	f := pipeline.Followed{Schema: real.Schema()}
	stages, err := Stage.Price(&Options{Budget: 0.5}, f, privacy.Budget{Epsilon: 1, Delta: 1e-5})
	testkit.Must(t, err)
	counts := []float64{0, 0}
	for i := range real.Len() {
		counts[real.Label(i)]++
	}
	a := &asker{real: real, sigma: stages[0].Mechanism.Sigma, rng: rand.New(rand.NewPCG(5, 5))}
	return &pipeline.Session{Followed: f, Plan: stages, Ask: a, Watch: func(string, int, int) {},
		Learned: &pipeline.Learned{Counts: counts, CountScale: 10, Receipts: []string{"one", "two"}}}, a
}

// For rows of the same distribution the figure is near 0, for others it is larger. The questions depend on the
// schema alone, and the notes record the release.
func TestTheFigureTellsRowsApart(t *testing.T) {
	schema := partitiontest.Schema(t, schemaText)
	rng := rand.New(rand.NewPCG(1, 2))
	real := rows(schema, 20_000, 2, rng)
	var asked []*conclavev1.Round
	var low, high []pipeline.Figure
	for _, tilt := range []float64{2, 0} {
		s, a := session(t, real)
		figures, err := Stage.Measure(t.Context(), &Options{Budget: 0.5}, &pipeline.Weighed{
			Table: rows(schema, 10_000, tilt, rng)}, s)
		testkit.Must(t, err)
		if len(figures) != 2 || !strings.Contains(figures[1].Name, "with the label") {
			t.Fatalf("figures %+v", figures)
		}
		if len(s.Learned.Receipts) != 3 || s.Learned.Spent != 0.9 || len(a.asked) != 1 || a.asked[0].Number != 2 {
			t.Errorf("asked %d rounds, notes %+v", len(a.asked), s.Learned)
		}
		asked, low, high = append(asked, a.asked[0]), high, figures
	}
	if !proto.Equal(asked[0], asked[1]) {
		t.Error("the question depends on the synthetic rows")
	}
	for i := range low {
		if low[i].High > 0.03 || high[i].Low < 0.03 || high[i].Low < low[i].High {
			t.Errorf("rows of the same kind %v, others %v", low[i], high[i])
		}
	}
}

// Without a label there is one figure, of columns.
func TestTheFigureWithoutALabel(t *testing.T) {
	schema := partitiontest.Schema(t, strings.Replace(schemaText, "label: y\n", "", 1))
	rng := rand.New(rand.NewPCG(1, 2))
	real := partition.NewTable(schema)
	for range 9000 {
		real.Push([]float64{rng.Float64(), float64(rng.IntN(3)), float64(rng.IntN(2))}, "")
	}
	f := pipeline.Followed{Schema: schema}
	stages, err := Stage.Price(&Options{Budget: 0.5}, f, privacy.Budget{Epsilon: 1, Delta: 1e-5})
	testkit.Must(t, err)
	s := &pipeline.Session{Followed: f, Plan: stages, Watch: func(string, int, int) {}, Learned: &pipeline.Learned{},
		Ask: &asker{real: real, sigma: stages[0].Mechanism.Sigma, rng: rng}}
	figures, err := Stage.Measure(t.Context(), &Options{Budget: 0.5}, &pipeline.Weighed{Table: real}, s)
	testkit.Must(t, err)
	if len(figures) != 1 || figures[0].Low > 0.01 {
		t.Errorf("figures %+v of rows that are the real ones", figures)
	}
}

// A release without information gives no figure, and says so.
func TestFiguresThatThereAreNot(t *testing.T) {
	schema := partitiontest.Schema(t, schemaText)
	rng := rand.New(rand.NewPCG(1, 2))
	many, few := rows(schema, 5000, 1, rng), rows(schema, 5, 1, rng)
	for what, c := range map[string]struct {
		real  *partition.Table
		begin func(*pipeline.Session, *asker)
		note  string
		err   string
	}{
		"a baseline": {many, func(_ *pipeline.Session, a *asker) { a.baseline = true }, "does not use " +
			"records", ""},
		"few records": {few, func(s *pipeline.Session, _ *asker) { s.Learned.CountScale = 0 },
			"the noise is larger than the number of records", ""},
		"a short release": {many, func(_ *pipeline.Session, a *asker) { a.entries = 3 }, "", "a release of 3 numbers"},
		"another plan": {many, func(s *pipeline.Session, _ *asker) { s.Plan = plan.Stages{} }, "",
			"does not include the quality figure"},
	} {
		s, a := session(t, c.real)
		c.begin(s, a)
		figures, err := Stage.Measure(t.Context(), &Options{Budget: 0.5}, &pipeline.Weighed{Table: many}, s)
		if len(figures) > 0 || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			!strings.Contains(strings.Join(s.Notes, " "), c.note) {
			t.Errorf("%s: figures %+v, notes %q, error %v", what, figures, s.Notes, err)
		}
	}
}

// Invalid options, and images, are refused before anything is asked.
func TestFiguresThatCannotBe(t *testing.T) {
	for _, budget := range []float64{-0.1, 1, math.NaN(), math.Inf(1)} {
		if err := (Options{Budget: budget}).Validate(); err == nil || !strings.Contains(err.Error(), "quality.budget") {
			t.Errorf("budget %v: %v", budget, err)
		}
	}
	testkit.Must(t, Options{}.Validate())
	images := pipeline.Followed{Schema: partitiontest.Schema(t, partitiontest.Bars)}
	if errs := Stage.Check(&Options{Budget: 0.1}, images); len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), "leave it out") {
		t.Errorf("images: %v", errs)
	}
	if errs := Stage.Check(&Options{}, images); len(errs) != 0 {
		t.Errorf("images without a figure: %v", errs)
	}
	small := pipeline.Followed{Schema: partitiontest.Schema(t, schemaText)}
	if _, err := Stage.Price(&Options{Budget: 1e-7}, small, privacy.Budget{Epsilon: 1, Delta: 1e-12}); err == nil ||
		!strings.Contains(err.Error(), "quality.budget: 1e-07") {
		t.Errorf("a budget of nothing: %v", err)
	}
	if stages, err := Stage.Price(&Options{}, small, privacy.Budget{Epsilon: 1, Delta: 1e-5}); err != nil ||
		len(stages) > 0 {
		t.Errorf("without a figure: %v, %v", stages, err)
	}
}
