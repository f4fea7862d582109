package relabel

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/labels"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const tableText = `label: y
columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: z, kind: continuous, lower: 0, upper: 1}
  - {name: y, kind: categorical, categories: [no, yes]}
`

// uniform are rows with independent numbers; label returns the label of a row.
type uniform func(rng *rand.Rand, x, z float64) int

func (u uniform) rows(n int, rng *rand.Rand) (r pipeline.Rows) {
	for range n {
		x, z := rng.Float64(), rng.Float64()
		r.X, r.Classes = append(r.X, float32(x), float32(z)), append(r.Classes, u(rng, x, z))
	}
	return r
}

func (u uniform) Draw(_ context.Context, n int) (pipeline.Rows, string, error) {
	return u.rows(n, rand.New(rand.NewPCG(7, 7))), "", nil
}

func (u uniform) Class(int, *rand.Rand) func(context.Context, int) (pipeline.Rows, error) {
	rng := rand.New(rand.NewPCG(8, 8))
	return func(_ context.Context, n int) (pipeline.Rows, error) { return u.rows(n, rng), nil }
}

// guessed has 3 times as many "no" as "yes", whatever else a row holds.
func guessed(rng *rand.Rand, _, _ float64) int { return rng.IntN(4) / 3 }

// above has "yes" above a line, for a fourth of the rows.
func above(_ *rand.Rand, x, z float64) int {
	if x+z > 2-math.Sqrt(0.5) {
		return 1
	}
	return 0
}

// gradients answers for records of the rule above, with noise of the plan.
type gradients struct {
	pipeline.Asker
	p       *question.Public
	sigma   float64
	nothing bool
	asked   []uint64
}

func (g *gradients) Baseline() bool { return g.nothing }

func (g *gradients) Ask(_ context.Context, stage string, r *conclavev1.Round) (*conclavev1.Release, error) {
	g.asked = append(g.asked, r.Number)
	if stage != name {
		return nil, errors.New("another stage")
	}
	checked, err := question.NewRegistry(labels.Sum).Read(g.p, r.Kind, r.Params)
	if err != nil {
		return nil, err
	}
	if err := checked.Shape.Check(r); err != nil || checked.Baseline != g.nothing {
		return nil, errors.Join(err, errors.New("another shape, or no baseline"))
	}
	real := uniform(above).rows(4000, rand.New(rand.NewPCG(1, 1)))
	sum, err := checked.Sum(&question.Site{Public: g.p, Rows: records(real)}, question.Round{})
	rng := rand.New(rand.NewPCG(3, r.Number))
	for i := range sum {
		sum[i] += int64(math.Round(g.sigma * float64(checked.Shape.Sum.Bound) * rng.NormFloat64()))
	}
	return &conclavev1.Release{LedgerHash: "paid", Teachers: 2, EpsilonSpent: 0.9,
		Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: sum}}}, err
}

// records are the rows of a site.
type records pipeline.Rows

func (r records) Blocks(_ context.Context, do func(*question.Block) error) error {
	return do(&question.Block{Records: r.X, Classes: r.Classes})
}

// Rows with random labels get those of the records, with the released shares; in a baseline they do not.
func TestRowsOfTablesGetTheirLabels(t *testing.T) {
	schema := partitiontest.Schema(t, tableText)
	for _, nothing := range []bool{false, true} {
		o := DefaultOptions()
		f := pipeline.Followed{Problem: pipeline.Problem{Encoder: encode.New(schema), Classes: 2, Seed: 5},
			Schema: schema, Post: []string{name}}
		stages, err := price(&o, f, privacy.Budget{Epsilon: 1, Delta: 1e-5})
		testkit.Must(t, err)
		if stages[0].Count != 10 || stages[0].Kind != labels.Sum.Name {
			t.Errorf("the plan is %+v, want 10 rounds", stages)
		}
		asker := &gradients{p: question.NewPublic(schema, 2, 1), sigma: stages[0].Mechanism.Sigma, nothing: nothing}
		s := &pipeline.Session{Followed: f, Plan: stages, Ask: asker, Watch: func(string, int, int) {},
			Learned: &pipeline.Learned{Counts: []float64{3000, 1000}, Receipts: []string{"one", "two"}}}
		so, err := apply(t.Context(), &o, uniform(guessed), s)
		testkit.Must(t, err)
		rows, note, err := so.Draw(t.Context(), 4000)
		testkit.Must(t, err)
		again, _, err := so.Draw(t.Context(), 4000)
		testkit.Must(t, err)
		if !slices.Equal(rows.Classes, again.Classes) {
			t.Error("the same call draws other labels")
		}
		right, yes := 0, 0
		for i, label := range rows.Classes {
			if label == above(nil, float64(rows.X[2*i]), float64(rows.X[2*i+1])) {
				right++
			}
			yes += label
		}
		t.Logf("baseline %v: %d of 4000 are right, %d are yes; %s", nothing, right, yes, note)
		// Guesses have 5/8 of 4000 right, and calibrated shares a fourth of 4000.
		if !nothing && right < 3200 || nothing && right > 3000 || yes < 900 || yes > 1100 {
			t.Errorf("baseline %v: %d of 4000 labels are right, and %d are yes", nothing, right, yes)
		}
		if want := []uint64{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; !slices.Equal(asker.asked, want) ||
			len(s.Learned.Receipts) != 12 {
			t.Errorf("asked rounds %d, want %d; receipts %q", asker.asked, want, s.Learned.Receipts)
		}
		if nothing {
			continue
		}
		one, err := so.Class(1, rand.New(rand.NewPCG(2, 2)))(t.Context(), 100)
		testkit.Must(t, err)
		mean := 0.0
		for _, v := range one.X {
			mean += float64(v) / 200
		}
		if !slices.Equal(one.Classes, slices.Repeat([]int{1}, 100)) || mean < 0.6 {
			t.Errorf("rows of class 1 have labels %v and a mean of %v", one.Classes, mean)
		}
	}
}

// A row keeps its label where the rule's breaks a constraint.
func TestNewLabelsObeyConstraints(t *testing.T) {
	schema := partitiontest.Schema(t, tableText+"constraints:\n  - {if: {x: \"<0.5\"}, then: {y: no}}\n")
	scaling, err := labels.NewScaling(2, []int{0, 1}, make([]float32, 4), []float32{1, 1, 1, 1})
	testkit.Must(t, err)
	l := &drawnLabels{&labels.Rule{Scaling: scaling, Weights: make([]float32, 8), Offsets: []float32{0, 20}},
		encode.New(schema)}
	rows := uniform(func(*rand.Rand, float64, float64) int { return 0 }).rows(500, rand.New(rand.NewPCG(1, 1)))
	changed := l.label(&rows, rand.New(rand.NewPCG(1, 2)))
	for i, class := range rows.Classes {
		if want := rows.X[2*i] >= 0.5; (class == 1) != want {
			t.Errorf("x %v has the label %d", rows.X[2*i], class)
		}
	}
	if changed < 200 || changed > 300 {
		t.Errorf("%d labels changed", changed)
	}
}

// The spread of vectors is their largest second moment.
func TestSpread(t *testing.T) {
	for want, vectors := range map[float64][]float64{
		0.75: {1, 0, 1, 0, 1, 0, 0, 1},
		1:    {0.6, 0.8, -0.6, -0.8},
		0.5:  {1, 0, 0, 1},
	} {
		if got := spread(vectors, 2); math.Abs(got-want) > 1e-3 {
			t.Errorf("the spread of %v is %v, want %v", vectors, got, want)
		}
	}
}

// Offsets are changed until the mean probabilities are the shares, also where they begin far away and a class is rare.
// A run that ends does not wait for that.
func TestCalibrate(t *testing.T) {
	scaling, err := labels.NewScaling(2, []int{0, 1}, make([]float32, 4), []float32{1, 1, 1, 1})
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(1, 3))
	vectors := vectorsOf(scaling, uniform(guessed).rows(2000, rng))
	r := &labels.Rule{Scaling: scaling, Weights: make([]float32, 3*4), Offsets: []float32{9, 0, -9}}
	for i := range r.Weights {
		r.Weights[i] = float32(5 * rng.NormFloat64())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	before := slices.Clone(r.Offsets)
	if err := calibrate(ended, r, vectors, nil); !errors.Is(err, context.Canceled) || !slices.Equal(r.Offsets, before) {
		t.Errorf("an ended run: %v, offsets %v", err, r.Offsets)
	}
	shares, mean, drawn := []float64{0.7, 0.299, 0.001}, make([]float64, 3), make([]float64, 3)
	testkit.Must(t, calibrate(t.Context(), r, vectors, shares))
	for i := range 2000 {
		r.Shares(drawn, vectors[4*i:4*i+4])
		for c, p := range drawn {
			mean[c] += p / 2000
		}
	}
	for c, share := range shares {
		if math.Abs(mean[c]/share-1) > 0.01 {
			t.Errorf("class %d has the mean probability %v, want %v", c+1, mean[c], share)
		}
	}
}
