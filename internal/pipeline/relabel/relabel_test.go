package relabel

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/studenttest"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/strokes"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const schemaText = `label: label
format: idx
image: {height: 8, width: 8, channels: 1}
columns:
  - {name: label, kind: categorical, categories: [a, b]}
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 64}
`

// confused are images of both classes whose labels are independent of them.
type confused struct{}

func (confused) Draw(_ context.Context, n int) (r pipeline.Rows, note string, err error) {
	return draw(n, rand.New(rand.NewPCG(7, 7)), func(rng *rand.Rand, _ int) int { return rng.IntN(2) }), "", nil
}

func (confused) Class(class int, rng *rand.Rand) func(context.Context, int) (pipeline.Rows, error) {
	return func(_ context.Context, n int) (pipeline.Rows, error) {
		return draw(n, rng, func(*rand.Rand, int) int { return class }), nil
	}
}

// draw draws n images; label returns the label of an image of a class.
func draw(n int, rng *rand.Rand, label func(rng *rand.Rand, class int) int) (r pipeline.Rows) {
	for range n {
		class := rng.IntN(2)
		r.X, r.Classes = append(r.X, studenttest.ImageRecord(rng, class)...), append(r.Classes, label(rng, class))
	}
	return r
}

// truth is the class of an image of [studenttest.ImageRecord]: it is bright at the left, or at the top.
func truth(x []float32) int {
	if x[56] < 0.5 { // the lower left
		return 1
	}
	return 0
}

// asker answers for real images, with noise of the plan.
type asker struct {
	pipeline.Asker
	p       *question.Public
	sigma   float64
	nothing bool
	asked   int
}

func (a *asker) Baseline() bool { return a.nothing }

func (a *asker) Ask(_ context.Context, stage string, r *conclavev1.Round) (*conclavev1.Release, error) {
	a.asked++
	if stage != name || r.Number != 2 {
		return nil, errors.New("another question")
	}
	checked, err := question.NewRegistry(strokes.Sum).Read(a.p, r.Kind, r.Params)
	if err != nil {
		return nil, err
	}
	if err := checked.Shape.Check(r); err != nil || checked.Baseline != a.nothing {
		return nil, errors.Join(err, errors.New("another shape, or no baseline"))
	}
	rng := rand.New(rand.NewPCG(3, 3))
	sum, err := checked.Sum(&question.Site{Public: a.p, Rows: real(4000)}, question.Round{})
	for i := range sum {
		sum[i] += int64(math.Round(a.sigma * float64(checked.Shape.Sum.Bound) * rng.NormFloat64()))
	}
	return &conclavev1.Release{LedgerHash: "paid", Teachers: 2, EpsilonSpent: 0.9,
		Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: sum}}}, err
}

// real is the number of real images with their labels.
type real int

func (n real) Blocks(_ context.Context, do func(*question.Block) error) error {
	r := draw(int(n), rand.New(rand.NewPCG(1, 1)), func(_ *rand.Rand, class int) int { return class })
	return do(&question.Block{Records: r.X, Classes: r.Classes})
}

func session(t *testing.T, nothing bool) (*pipeline.Session, *Options, *asker) {
	t.Helper()
	schema := partitiontest.Schema(t, schemaText)
	o := Options{Share: 0.5, Directions: 20}
	f := pipeline.Followed{Problem: pipeline.Problem{Encoder: studenttest.Images(t, 8, 8, 1), Classes: 2},
		Schema: schema, Post: []string{name}}
	if errs := check(&o, f); errs != nil {
		t.Fatal(errs)
	}
	stages, err := price(&o, f, privacy.Budget{Epsilon: 1, Delta: 1e-5})
	testkit.Must(t, err)
	a := &asker{p: question.NewPublic(schema, 2, 1), sigma: stages[0].Mechanism.Sigma, nothing: nothing}
	return &pipeline.Session{Followed: f, Plan: stages, Ask: a, Watch: func(string, int, int) {},
		Learned: &pipeline.Learned{Counts: []float64{2000, 2000}, Receipts: []string{"one", "two"}}}, &o, a
}

// Images with random labels get those of the rule, which are nearly always right; in a baseline they are not.
func TestImagesGetTheirLabels(t *testing.T) {
	for _, nothing := range []bool{false, true} {
		s, o, a := session(t, nothing)
		so, err := apply(t.Context(), o, confused{}, s)
		testkit.Must(t, err)
		rows, note, err := so.Draw(t.Context(), 1000)
		testkit.Must(t, err)
		right := 0
		for i, label := range rows.Classes {
			if label == truth(rows.X[64*i:]) {
				right++
			}
		}
		t.Logf("baseline %v: %d of 1000 are right", nothing, right)
		if !nothing && right < 980 || nothing && right > 900 {
			t.Errorf("baseline %v: %d of 1000 labels are right", nothing, right)
		}
		if a.asked != 1 || len(s.Learned.Receipts) != 3 || s.Learned.Spent != 0.9 ||
			!strings.Contains(note, "of 1000 images got another label than the generator's.") {
			t.Errorf("asked %d times, notes %+v and %q", a.asked, s.Learned, note)
		}
		if nothing {
			continue
		}
		for class := range 2 {
			one, err := so.Class(class, rand.New(rand.NewPCG(2, 2)))(t.Context(), 100)
			testkit.Must(t, err)
			if !slices.Equal(one.Classes, slices.Repeat([]int{class}, 100)) || truth(one.X) != class {
				t.Errorf("images of class %d are labelled %v", class, one.Classes)
			}
		}
	}
}

// With no noise the rule is ridge regression.
func TestSolveIsRidgeRegression(t *testing.T) {
	products, classes := []float64{4, 1, 1, 3}, []float64{2, 0, 0, 2} // two classes
	got, err := solve(products, classes, 2, 1)
	testkit.Must(t, err)
	// (5 1; 1 4)^-1 (1 -1; -1 1), by hand
	for i, want := range []float64{5.0 / 19, -5.0 / 19, -6.0 / 19, 6.0 / 19} {
		if math.Abs(float64(got[i])-want) > 1e-6 {
			t.Errorf("coefficient %d is %v, want %v", i, got[i], want)
		}
	}
}

// Numbers vary in each direction by about 1, and without correlation.
func TestDirectionsAreThoseInWhichNumbersVary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var x []float32
	for range 4000 {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		x = append(x, float32(5+3*a), float32(3*a+b), 2)
	}
	mean, matrix, err := varied(x, 3, 2)
	testkit.Must(t, err)
	var moments [3]float64
	for i := 0; i < len(x); i += 3 {
		var at [2]float64
		for j, m := range mean {
			for k := range at {
				at[k] += float64((x[i+j] - m) * matrix[2*j+k])
			}
		}
		moments[0], moments[1], moments[2] = moments[0]+at[0]*at[0]/4000, moments[1]+at[1]*at[1]/4000,
			moments[2]+at[0]*at[1]/4000
	}
	if math.Abs(moments[0]-1) > 0.01 || math.Abs(moments[1]-1) > 0.05 || math.Abs(moments[2]) > 0.01 {
		t.Errorf("second moments %v, want 1, 1 and 0", moments)
	}
	if _, matrix, err = varied(make([]float32, 30), 3, 5); err != nil || len(matrix) != 9 || slices.Max(matrix) > 1 {
		t.Errorf("numbers that do not vary: %v (%v)", matrix, err)
	}
}

func TestWhatCannotBeLabelled(t *testing.T) {
	table := partitiontest.Schema(t, partitiontest.Mixed)
	images := partitiontest.Schema(t, schemaText)
	for name, c := range map[string]struct {
		schema *partition.Schema
		o      Options
		want   string
	}{
		"no classes": {partitiontest.Schema(t, "columns:\n  - {name: x, kind: binary}\n"), DefaultOptions(),
			"post: relabel: the schema has no label of several classes"},
		"too many columns": {partitiontest.Schema(t, strings.Replace(tableText, "upper: 1}",
			"upper: 1, repeat: 40000}", 1)), DefaultOptions(), "need 160004 weights, and 131072 is the most"},
		"small images": {partitiontest.Schema(t, strings.NewReplacer("height: 8", "height: 4", "repeat: 64",
			"repeat: 32").Replace(schemaText)), DefaultOptions(), "images of 4 x 8 pixels are too small"},
	} {
		errs := check(&c.o, pipeline.Followed{Schema: c.schema, Post: []string{"relabel"}})
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, errs, c.want)
		}
	}
	if errs := check(&Options{}, pipeline.Followed{Schema: table}); errs != nil {
		t.Errorf("without the stage: %v", errs)
	}
	if errs := check(&Options{}, pipeline.Followed{Schema: table, Post: []string{name}}); errs != nil {
		t.Errorf("a table with a label: %v", errs)
	}
	o := DefaultOptions()
	_, err := price(&o, pipeline.Followed{Schema: images, Post: []string{name}},
		privacy.Budget{Epsilon: 1e-6, Delta: 1e-9})
	if err == nil || !strings.Contains(err.Error(), "relabel.share: 0.7 of privacy.epsilon 1e-06 for the labels") {
		t.Errorf("hardly any budget: %v", err)
	}
	if err := (Options{Share: 1, Directions: 301, Rounds: 0}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "share: 1 is not a share") || !strings.Contains(err.Error(), "directions") ||
		!strings.Contains(err.Error(), "rounds") {
		t.Errorf("options beyond all: %v", err)
	}
}
