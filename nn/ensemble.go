package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// EnsembleSpec describes many equal class-conditional discriminators.
type EnsembleSpec struct {
	// Models is the number of models, Features the input width, Classes the
	// number of classes a record can have.
	Models, Features, Classes int
	// Hidden is the width of the hidden layer of each class, 0 for none
	// (logistic regression).
	Hidden int
	// Rate and Decay are Adam's step size and its decoupled weight decay.
	Rate, Decay float64
	Seed        uint64
}

// Size is the number of parameters of one model and class.
func (s EnsembleSpec) Size() int {
	if s.Hidden > 0 {
		return s.Hidden*(s.Features+1) + s.Hidden + 1
	}
	return s.Features + 1
}

// Ensemble holds the models of a spec, one network per model and class, with
// their optimizer. Model i's parameters of class c are contiguous:
// [features x hidden weights, hidden biases, hidden output weights, bias], or
// [features weights, bias] without a hidden layer. It is not safe for concurrent
// use.
type Ensemble struct {
	spec    EnsembleSpec
	size    int // spec.Size()
	w, m, v []float32
	steps   int
	// byClass are records sorted by their class, for the length of a call.
	byClass [][]float32
	workers []*trainer
}

// Examples holds the real records of one model by class: ByClass[c] has shape
// [rows, features].
type Examples struct {
	ByClass [][]float32
}

// NewEnsemble returns an ensemble with zero output weights, so that a model
// that never sees a record of some class scores all records of it alike.
func NewEnsemble(spec EnsembleSpec) (*Ensemble, error) {
	if spec.Models < 1 || spec.Features < 1 || spec.Classes < 1 || spec.Hidden < 0 {
		return nil, fmt.Errorf("nn: ensemble of %d models, %d features, %d classes, %d hidden units: the first three must be at least 1, the last at least 0",
			spec.Models, spec.Features, spec.Classes, spec.Hidden)
	}
	if !(spec.Rate > 0) || !(spec.Decay >= 0) || math.IsInf(spec.Rate, 0) || math.IsInf(spec.Decay, 0) {
		return nil, fmt.Errorf("nn: ensemble learning rate %v and decay %v: want a rate above 0 and a decay of at least 0", spec.Rate, spec.Decay)
	}
	e := &Ensemble{spec: spec, size: spec.Size()}
	n := spec.Models * spec.Classes * e.size
	e.w, e.m, e.v = make([]float32, n), make([]float32, n), make([]float32, n)
	if spec.Hidden > 0 {
		bound := math.Sqrt(6 / float64(spec.Features+spec.Hidden))
		for i := range spec.Models {
			rng := rand.New(rand.NewPCG(spec.Seed, uint64(i)))
			for c := range spec.Classes {
				w := e.params(e.w, i, c)
				for j := range spec.Hidden * (spec.Features + 1) {
					w[j] = float32((2*rng.Float64() - 1) * bound)
				}
			}
		}
	}
	return e, nil
}

// Spec returns the ensemble's description.
func (e *Ensemble) Spec() EnsembleSpec { return e.spec }

func (e *Ensemble) params(of []float32, model, class int) []float32 {
	at := (model*e.spec.Classes + class) * e.size
	return of[at : at+e.size]
}

// Train takes optimizer steps on every model: real[i] against the generated
// records of shape [len(classes), features]. A step sees at most batch real
// and batch generated records of each class. A model without real records of
// a class keeps its network of that class.
func (e *Ensemble) Train(real []Examples, generated []float32, classes []int, steps, batch int) error {
	s := e.spec
	if len(real) != s.Models {
		return fmt.Errorf("nn: train got the examples of %d models, the ensemble has %d", len(real), s.Models)
	}
	if steps < 1 || batch < 1 {
		return fmt.Errorf("nn: train with %d steps of %d records, want at least 1 of each", steps, batch)
	}
	if err := e.split(generated, classes); err != nil {
		return err
	}
	for i, r := range real {
		if len(r.ByClass) != s.Classes {
			return fmt.Errorf("nn: model %d has examples of %d classes, want %d", i, len(r.ByClass), s.Classes)
		}
		for _, rows := range r.ByClass {
			if len(rows)%s.Features != 0 {
				return fmt.Errorf("nn: model %d has %d example values, not a multiple of %d features", i, len(rows), s.Features)
			}
		}
	}
	if workers := e.crew(); workers > 1 {
		e.parallel(workers, func(i int, t *trainer) { e.train(t, i, real[i], steps, batch) })
	} else {
		for i := range s.Models {
			e.train(e.workers[0], i, real[i], steps, batch)
		}
	}
	e.steps += steps
	return nil
}

// train takes the steps of one model. Its random numbers depend on nothing but
// model, class and the steps taken so far.
func (e *Ensemble) train(t *trainer, model int, real Examples, steps, batch int) {
	s := e.spec
	for c := range s.Classes {
		if len(real.ByClass[c]) == 0 || len(e.byClass[c]) == 0 {
			continue
		}
		t.pcg.Seed(s.Seed^uint64(e.steps)<<20, uint64(model*s.Classes+c))
		w, m, v := e.params(e.w, model, c), e.params(e.m, model, c), e.params(e.v, model, c)
		for k := range steps {
			t.step(w, m, v, e.steps+k+1, real.ByClass[c], e.byClass[c], batch)
		}
	}
}

// Score writes every model's score of every record to out, shape [models,
// len(classes)]; x has shape [len(classes), features].
func (e *Ensemble) Score(out, x []float32, classes []int) error {
	s, n := e.spec, len(classes)
	if len(x) != n*s.Features || len(out) != n*s.Models {
		return fmt.Errorf("nn: score got %d values and room for %d scores of %d records", len(x), len(out), n)
	}
	if err := e.split(x, classes); err != nil {
		return err
	}
	e.parallel(e.crew(), func(i int, t *trainer) { e.score(t, i, out[i*n:(i+1)*n], classes) })
	return nil
}

// score evaluates one model on the records in byClass, class by class and block
// by block, and puts the scores in the order of classes.
func (e *Ensemble) score(t *trainer, model int, out []float32, classes []int) {
	f := e.spec.Features
	for c, rows := range e.byClass {
		w, next, have := e.params(e.w, model, c), 0, t.out[:0]
		for i, class := range classes {
			if class != c {
				continue
			}
			if next == len(have) {
				k := min(blockRows, len(rows)/f)
				next, have = 0, t.out[:k]
				t.scores(have, w, rows[:k*f])
				rows = rows[k*f:]
			}
			out[i] = have[next]
			next++
		}
	}
}

// State lists the ensemble's tensors for a checkpoint; Steps and SetSteps go
// with it.
func (e *Ensemble) State() []Param {
	shape := []int{e.spec.Models, e.spec.Classes, e.size}
	return []Param{{Name: "parameters", Shape: shape, Value: e.w}, {Name: "m", Shape: shape, Value: e.m}, {Name: "v", Shape: shape, Value: e.v}}
}

// Steps returns the number of optimizer steps taken by each model.
func (e *Ensemble) Steps() int { return e.steps }

// SetSteps restores the number of optimizer steps.
func (e *Ensemble) SetSteps(n int) { e.steps = n }

// split copies the records of each class together.
func (e *Ensemble) split(x []float32, classes []int) error {
	f := e.spec.Features
	if len(x) != len(classes)*f {
		return fmt.Errorf("nn: %d values for %d records of %d features", len(x), len(classes), f)
	}
	if e.byClass == nil {
		e.byClass = make([][]float32, e.spec.Classes)
	}
	for c := range e.byClass {
		e.byClass[c] = e.byClass[c][:0]
	}
	for i, c := range classes {
		if c < 0 || c >= e.spec.Classes {
			return fmt.Errorf("nn: class %d of %d", c, e.spec.Classes)
		}
		e.byClass[c] = append(e.byClass[c], x[i*f:(i+1)*f]...)
	}
	return nil
}

// chunk is how many models a worker takes at once.
const chunk = 16

// crew makes a trainer for each worker that can be of use, and returns their
// number.
func (e *Ensemble) crew() int {
	n := min(runtime.GOMAXPROCS(0), (e.spec.Models+chunk-1)/chunk)
	for len(e.workers) < n {
		e.workers = append(e.workers, newTrainer(e.spec))
	}
	return n
}

// parallel runs f for every model. Models do not share state, so the result does
// not depend on the schedule.
func (e *Ensemble) parallel(workers int, f func(model int, t *trainer)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, t := range e.workers[:workers] {
		wg.Go(func() {
			for {
				lo := int(next.Add(chunk)) - chunk
				if lo >= e.spec.Models {
					return
				}
				for i := lo; i < min(lo+chunk, e.spec.Models); i++ {
					f(i, t)
				}
			}
		})
	}
	wg.Wait()
}
