package ensemble

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
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
			spec := critics(3, 4, 2, hidden)
			spec.Rate, spec.Seed = 0.05, 1
			e, err := New(spec)
			testkit.Must(t, err)
			for range 10 {
				testkit.Must(t, e.Train(real, generated, classes, 20, 32))
			}
			x := []float32{3, 0, 0, 0, -3, 0, 0, 0}
			for c, better := range []int{0, 1} { // the record nearer to the class's real ones
				scores := make([]float32, 6)
				testkit.Must(t, e.Score(scores, x, []int{c, c}))
				for i := range 3 {
					if scores[2*i+better] <= scores[2*i+1-better]+1 {
						t.Errorf("model %d, class %d: scores %v", i, c, scores[2*i:2*i+2])
					}
				}
			}
		})
	}
}

// TestEnsembleModelsDoNotShareAnything: a model sees its own examples only.
func TestEnsembleModelsDoNotShareAnything(t *testing.T) {
	real, generated, classes := toy(4, 3, rand.New(rand.NewPCG(2, 2)))
	train := func(real []Examples) *Ensemble {
		e, err := New(critics(4, 3, 2, 4))
		testkit.Must(t, err)
		testkit.Must(t, e.Train(real, generated, classes, 5, 8))
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
	e, err := New(critics(1, 2, 2, 3))
	testkit.Must(t, err)
	testkit.Must(t, e.Train(real, []float32{0, 0, 1, 1}, []int{0, 1}, 10, 4))
	scores := make([]float32, 2)
	testkit.Must(t, e.Score(scores, []float32{5, 5, -5, 0}, []int{1, 1}))
	testkit.Same(t, "", []float32{0, 0}, scores)
}

func TestEnsembleRefusesWhatDoesNotFit(t *testing.T) {
	for name, change := range map[string]func(s *Spec){
		"no models":       func(s *Spec) { s.Models = 0 },
		"too many models": func(s *Spec) { s.Models = math.MaxInt / 2 },
		"no classes":      func(s *Spec) { s.Classes = 0 },
		"no input":        func(s *Spec) { s.Input = nn.Vector(0) },
		"no layers":       func(s *Spec) { s.Layers = nil },
		"two outputs":     func(s *Spec) { s.Layers = []nn.Spec{nn.Dense{Out: 2}} },
		"rate 0":          func(s *Spec) { s.Rate = 0 },
		"rate NaN":        func(s *Spec) { s.Rate = math.NaN() },
		"decay below 0":   func(s *Spec) { s.Decay = -1 },
	} {
		s := critics(1, 2, 1, 0)
		change(&s)
		if _, err := New(s); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	e, err := New(critics(1, 2, 1, 0))
	testkit.Must(t, err)
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
			spec := critics(models, features, 2, hidden)
			spec.Decay = 0.3
			e, err := New(spec)
			testkit.Must(b, err)
			scores := make([]float32, models*64)
			for b.Loop() {
				testkit.Must(b, e.Train(real, generated, classes, 10, 32))
				testkit.Must(b, e.Score(scores, generated, classes))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/models, "ns/teacher")
		})
	}
}
