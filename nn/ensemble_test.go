package nn

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// toy returns examples and generated records of two classes: real records of
// class 0 lie to the right in feature 0, those of class 1 to the left, so that
// one weight vector for both classes could not tell them from generated ones.
func toy(models, features int, rng *rand.Rand) (real []Examples, generated []float32, classes []int) {
	record := func(shift float64) []float32 {
		x := make([]float32, features)
		for j := range x {
			x[j] = float32(rng.NormFloat64())
		}
		x[0] += float32(shift)
		return x
	}
	real = make([]Examples, models)
	for i := range real {
		real[i].ByClass = make([][]float32, 2)
		for range 40 {
			real[i].ByClass[0] = append(real[i].ByClass[0], record(2)...)
			real[i].ByClass[1] = append(real[i].ByClass[1], record(-2)...)
		}
	}
	for i := range 200 {
		generated = append(generated, record(0)...)
		classes = append(classes, i%2)
	}
	return real, generated, classes
}

func TestEnsembleLearnsEachClass(t *testing.T) {
	for name, hidden := range map[string]int{"logistic": 0, "hidden": 8} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 8))
			real, generated, classes := toy(3, 4, rng)
			e, err := NewEnsemble(EnsembleSpec{Models: 3, Features: 4, Classes: 2, Hidden: hidden, Rate: 0.05, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				if err := e.Train(real, generated, classes, 20, 32); err != nil {
					t.Fatal(err)
				}
			}
			x := []float32{3, 0, 0, 0, -3, 0, 0, 0}
			for c, better := range []int{0, 1} { // the record nearer to the class's real ones
				scores := make([]float32, 6)
				if err := e.Score(scores, x, []int{c, c}); err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					if scores[2*i+better] <= scores[2*i+1-better]+1 {
						t.Errorf("model %d, class %d: scores %v", i, c, scores[2*i:2*i+2])
					}
				}
			}
		})
	}
}

// TestTrainerGradientAgreesWithCentralDifferences checks the gradient of one
// step's loss for both kinds of model.
func TestTrainerGradientAgreesWithCentralDifferences(t *testing.T) {
	for name, hidden := range map[string]int{"logistic": 0, "hidden": 3} {
		t.Run(name, func(t *testing.T) {
			spec := EnsembleSpec{Models: 1, Features: 3, Classes: 1, Hidden: hidden, Rate: 0.1}
			e, err := NewEnsemble(spec)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(9, 11)) // no activation within a difference of its kink
			for i := range e.w {
				e.w[i] = float32(rng.NormFloat64())
			}
			real, generated := make([]float32, 5*3), make([]float32, 4*3)
			for i := range real {
				real[i] = float32(rng.NormFloat64())
			}
			for i := range generated {
				generated[i] = float32(rng.NormFloat64())
			}
			tr := newTrainer(spec)
			at := func() float64 {
				var v float64
				for i := range 5 {
					v += 0.5 / 5 * math.Log1p(math.Exp(-float64(scoreOf(tr, e.w, real[3*i:3*i+3]))))
				}
				for i := range 4 {
					v += 0.5 / 4 * math.Log1p(math.Exp(float64(scoreOf(tr, e.w, generated[3*i:3*i+3]))))
				}
				return v
			}
			tr.accumulate(e.w, real, 100, -1)
			tr.accumulate(e.w, generated, 100, 1)
			for i, g := range tr.grad {
				near(t, "parameter", float64(g), numeric(e.w, i, at))
			}
		})
	}
}

// scoreOf evaluates one network on one record.
func scoreOf(t *trainer, w, x []float32) float32 {
	t.scores(t.out[:1], w, x)
	return t.out[0]
}

func TestEnsembleIsTheSameWhateverGOMAXPROCS(t *testing.T) {
	train := func(procs int) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		real, generated, classes := toy(50, 5, rand.New(rand.NewPCG(1, 1)))
		e, err := NewEnsemble(EnsembleSpec{Models: 50, Features: 5, Classes: 2, Rate: 0.1, Decay: 0.1, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := e.Train(real, generated, classes, 5, 8); err != nil {
				t.Fatal(err)
			}
		}
		return e.w
	}
	if !slices.Equal(train(1), train(4)) {
		t.Error("one and four processors trained different weights")
	}
}

// TestEnsembleModelsDoNotShareAnything: a model sees its own examples only.
func TestEnsembleModelsDoNotShareAnything(t *testing.T) {
	real, generated, classes := toy(4, 3, rand.New(rand.NewPCG(2, 2)))
	train := func(real []Examples) *Ensemble {
		e, err := NewEnsemble(EnsembleSpec{Models: 4, Features: 3, Classes: 2, Hidden: 4, Rate: 0.1, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Train(real, generated, classes, 5, 8); err != nil {
			t.Fatal(err)
		}
		return e
	}
	before := train(real)
	other, _, _ := toy(1, 3, rand.New(rand.NewPCG(77, 2)))
	changed := slices.Clone(real)
	changed[2] = other[0]
	after := train(changed)
	for i := range 4 {
		for c := range 2 {
			same := slices.Equal(before.params(before.w, i, c), after.params(after.w, i, c))
			if same != (i != 2) {
				t.Errorf("model %d class %d: weights equal is %v after model 2's records changed", i, c, same)
			}
		}
	}
}

func TestEnsembleWithoutRecordsOfAClassScoresThemAlike(t *testing.T) {
	real := []Examples{{ByClass: [][]float32{{1, 2}, nil}}}
	e, err := NewEnsemble(EnsembleSpec{Models: 1, Features: 2, Classes: 2, Hidden: 3, Rate: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Train(real, []float32{0, 0, 1, 1}, []int{0, 1}, 10, 4); err != nil {
		t.Fatal(err)
	}
	scores := make([]float32, 2)
	if err := e.Score(scores, []float32{5, 5, -5, 0}, []int{1, 1}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{0, 0}, scores); diff != "" {
		t.Error(diff)
	}
}

func TestEnsembleRefusesWhatDoesNotFit(t *testing.T) {
	for _, s := range []EnsembleSpec{
		{Models: 0, Features: 1, Classes: 1, Rate: 1}, {Models: 1, Features: 0, Classes: 1, Rate: 1},
		{Models: 1, Features: 1, Classes: 0, Rate: 1}, {Models: 1, Features: 1, Classes: 1, Hidden: -1, Rate: 1},
		{Models: 1, Features: 1, Classes: 1, Rate: 0}, {Models: 1, Features: 1, Classes: 1, Rate: math.NaN()},
		{Models: 1, Features: 1, Classes: 1, Rate: 1, Decay: -1},
	} {
		if _, err := NewEnsemble(s); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
	e, err := NewEnsemble(EnsembleSpec{Models: 1, Features: 2, Classes: 1, Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	ok := []Examples{{ByClass: [][]float32{{1, 2}}}}
	for name, err := range map[string]error{
		"models":   e.Train(nil, []float32{1, 2}, []int{0}, 1, 1),
		"classes":  e.Train([]Examples{{}}, []float32{1, 2}, []int{0}, 1, 1),
		"ragged":   e.Train([]Examples{{ByClass: [][]float32{{1}}}}, []float32{1, 2}, []int{0}, 1, 1),
		"class id": e.Train(ok, []float32{1, 2}, []int{1}, 1, 1),
		"values":   e.Train(ok, []float32{1}, []int{0}, 1, 1),
		"steps":    e.Train(ok, []float32{1, 2}, []int{0}, 0, 1),
		"batch":    e.Train(ok, []float32{1, 2}, []int{0}, 1, 0),
		"room":     e.Score(nil, []float32{1, 2}, []int{0}),
		"score id": e.Score(make([]float32, 1), []float32{1, 2}, []int{-1}),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// BenchmarkEnsembleRound is the teachers' part of a round: 1,000 teachers of 30
// features, 64 generated records to train on, 64 queries. ns/teacher is the
// figure to watch.
func BenchmarkEnsembleRound(b *testing.B) {
	for name, hidden := range map[string]int{"logistic": 0, "hidden16": 16} {
		b.Run(name, func(b *testing.B) {
			const models, features = 1000, 30
			real, generated, classes := toy(models, features, rand.New(rand.NewPCG(1, 1)))
			generated, classes = generated[:64*features], classes[:64]
			for i := range real {
				for c := range 2 {
					real[i].ByClass[c] = real[i].ByClass[c][:16*features]
				}
			}
			e, err := NewEnsemble(EnsembleSpec{Models: models, Features: features, Classes: 2, Hidden: hidden, Rate: 0.1, Decay: 0.3})
			if err != nil {
				b.Fatal(err)
			}
			scores := make([]float32, models*64)
			for b.Loop() {
				if err := e.Train(real, generated, classes, 10, 32); err != nil {
					b.Fatal(err)
				}
				if err := e.Score(scores, generated, classes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/models, "ns/teacher")
		})
	}
}
