// Package ensemble trains many equal models, a site's teachers, at once. Start with [New].
package ensemble

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Spec describes many models of one architecture, each a critic: a network
// for every class of records, with one output, the score.
type Spec struct {
	// Models is the number of models, Classes the number of networks of each. A model with one network may be told
	// the class by an [nn.Embedding].
	Models, Classes int
	// Input is the shape of a record, Layers are the layers on top of it.
	Input  nn.Shape
	Layers []nn.Spec
	// Loss is the loss of the models; nil means [losses.Logistic].
	Loss losses.Loss
	// Rate and Decay are Adam's step size and its decoupled weight decay.
	Rate, Decay float64
	Seed        uint64
	// Fresh models begin untrained in every round, all from the same weights, drawn from Start. Only
	// [Ensemble.TrainGradients] is useful for them, and no model is stored.
	Fresh bool
	Start uint64
}

// Ensemble holds the models of a spec with their optimizer. All parameters are in one array with the model as
// leading axis. Each processor has one network, which acts as one model after another. So a model costs three
// numbers per parameter and nothing else. It is not safe for concurrent use.
type Ensemble struct {
	spec    Spec
	in      int       // numbers of a record
	size    int       // parameters of a network
	w, m, v []float32 // [models, classes, size]
	steps   int

	adam     []vector.AdamStep
	pool     parallel.Pool
	trainers []*trainer // of each worker
	job      call
	tasks    tasks
	records  classRecords
	asked    classRecords // whose gradients are wanted
	done     <-chan struct{}
}

// tasks are the tasks of workers for a model. They are created once, so that a call allocates nothing.
type tasks struct{ trains, scores, gradients, rounds parallel.Task }

type call struct {
	chunk int
	real  []Examples
	rows  int
	steps []vector.AdamStep
	out   []float32
	loss  losses.Loss
	visit func(model int, dx []float32)
}

// New draws the weights of all models.
func New(spec Spec) (*Ensemble, error) {
	if spec.Models < 1 || spec.Classes < 1 {
		return nil, fmt.Errorf("ensemble: %d models of %d classes, want at least 1 of each", spec.Models, spec.Classes)
	}
	if !(spec.Rate > 0) || !(spec.Decay >= 0) || math.IsInf(spec.Rate, 0) || math.IsInf(spec.Decay, 0) {
		return nil, fmt.Errorf("ensemble: learning rate %v and decay %v: want a rate above 0 and a decay of at least 0",
			spec.Rate, spec.Decay)
	}
	net, err := nn.NewNetwork(rand.New(rand.NewPCG(0, 0)), spec.Input, spec.Layers...)
	if err != nil {
		return nil, err
	}
	if net.Out() != 1 {
		return nil, fmt.Errorf("ensemble: models of an ensemble have %d outputs, want 1", net.Out())
	}
	e := &Ensemble{spec: spec, in: net.In()}
	for _, p := range net.Params() {
		e.size += len(p.Value)
	}
	kept := []int{spec.Models, spec.Classes, e.size}
	if spec.Fresh {
		kept = kept[2:]
	}
	if _, err := tensor.Size(kept); err != nil {
		return nil, fmt.Errorf("ensemble: %w", err)
	}
	e.tasks = tasks{e.trainPart, e.scorePart, e.gradientPart, e.roundPart}
	s := newTrainer(net)
	e.trainers = []*trainer{s}
	if spec.Fresh {
		e.w = make([]float32, e.size)
		s.Take(e.w)
		net.Draw(rand.New(rand.NewPCG(spec.Start, 0)))
		return e, nil
	}
	n := spec.Models * spec.Classes * e.size
	e.w, e.m, e.v = make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range spec.Models {
		rng := rand.New(rand.NewPCG(spec.Seed, uint64(i)))
		for c := range spec.Classes {
			s.Take(e.params(e.w, i, c))
			net.Draw(rng)
		}
	}
	return e, nil
}

// In returns the number of values of a record.
func (e *Ensemble) In() int { return e.in }

func (e *Ensemble) params(of []float32, model, class int) []float32 {
	at := (model*e.spec.Classes + class) * e.size
	return of[at : at+e.size]
}

// Train takes optimizer steps on every model: real[i] against the generated records of shape [len(classes), In]. A
// step sees at most batch real and batch generated records of each class. A model without real records of a class
// leaves its network of that class unchanged. The amount of computation depends only on the generated records,
// steps and batch.
func (e *Ensemble) Train(real []Examples, generated []float32, classes []int, steps, batch int) error {
	if e.spec.Fresh {
		return errFresh
	}
	if err := e.ready(real, generated, classes, steps, batch); err != nil {
		return err
	}
	e.run(call{real: real, steps: e.adam, rows: batch}, e.tasks.trains)
	if e.ended() {
		return ErrEnded
	}
	e.steps += steps
	return nil
}

// errFresh says that fresh models are not stored, so they cannot be trained or asked separately.
var errFresh = errors.New("ensemble: fresh models are trained and asked at once")

// ErrEnded says that training was ended before its last step. The ensemble must not be used afterwards.
var ErrEnded = errors.New("ensemble: training was ended")

// Until makes training end early once done is closed; nil removes this.
func (e *Ensemble) Until(done <-chan struct{}) { e.done = done }

func (e *Ensemble) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// ready checks the examples of a training and prepares its steps.
func (e *Ensemble) ready(real []Examples, generated []float32, classes []int, steps, batch int) error {
	s := e.spec
	if len(real) != s.Models {
		return fmt.Errorf("ensemble: train got the examples of %d models, the ensemble has %d", len(real), s.Models)
	}
	if steps < 1 || batch < 1 {
		return fmt.Errorf("ensemble: train with %d steps of %d records, want at least 1 of each", steps, batch)
	}
	for i, r := range real {
		if r.View != nil {
			continue
		}
		if len(r.ByClass) != s.Classes {
			return fmt.Errorf("ensemble: model %d has examples of %d classes, want %d", i, len(r.ByClass), s.Classes)
		}
		for _, rows := range r.ByClass {
			if len(rows)%e.in != 0 {
				return fmt.Errorf("ensemble: model %d has %d example values, not a multiple of %d features",
					i, len(rows), e.in)
			}
		}
	}
	if err := e.records.split(generated, classes, s.Classes, e.in); err != nil {
		return err
	}
	e.adam = e.adam[:0]
	for k := range steps {
		e.adam = append(e.adam, vector.AdamStep{Rate: s.Rate, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8,
			Decay: s.Decay}.At(e.steps+k+1))
	}
	return nil
}

// Score writes every model's score of every record to out, shape [Models,
// len(classes)]; x has shape [len(classes), In].
func (e *Ensemble) Score(out, x []float32, classes []int) error {
	if e.spec.Fresh {
		return errFresh
	}
	if n := len(classes); len(out) != n*e.spec.Models {
		return fmt.Errorf("ensemble: room for %d scores of %d records by %d models", len(out), n, e.spec.Models)
	}
	if err := e.records.split(x, classes, e.spec.Classes, e.in); err != nil {
		return err
	}
	e.run(call{out: out}, e.tasks.scores)
	return nil
}

// InputGradients calls visit for every model with the gradients with respect to the records x of shape
// [len(classes), In], in the same shape. That of record i is for its own loss as if it were real, by the given
// [losses.Loss]; nil means [losses.Logistic]. It is the direction that a generator descends. A loss over a whole
// batch sees the records of one class.
//
// Calls come in any order and concurrently from several goroutines; dx is valid during the call.
func (e *Ensemble) InputGradients(x []float32, classes []int, loss losses.Loss,
	visit func(model int, dx []float32)) error {
	if e.spec.Fresh {
		return errFresh
	}
	if err := e.asked.split(x, classes, e.spec.Classes, e.in); err != nil {
		return err
	}
	e.run(call{loss: loss, visit: visit}, e.tasks.gradients)
	return nil
}

// TrainGradients is [Ensemble.Train] followed by [Ensemble.InputGradients] at the records x, but each model is
// asked right after its training, while it is in memory. The answers of fresh models depend only on the call.
func (e *Ensemble) TrainGradients(
	real []Examples, generated []float32, classes []int, steps, batch int,
	x []float32, xClasses []int, loss losses.Loss, visit func(model int, dx []float32),
) error {
	if err := e.ready(real, generated, classes, steps, batch); err != nil {
		return err
	}
	if err := e.asked.split(x, xClasses, e.spec.Classes, e.in); err != nil {
		return err
	}
	e.run(call{real: real, steps: e.adam, rows: batch, loss: loss, visit: visit}, e.tasks.rounds)
	if e.ended() {
		return ErrEnded
	}
	if !e.spec.Fresh { // fresh models are not stored
		e.steps += steps
	}
	return nil
}

// Work is the cost of training: steps of networks, and records that passed through them.
type Work struct{ Steps, Records int }

// Work returns what all training took so far.
func (e *Ensemble) Work() Work {
	var all Work
	for _, t := range e.trainers {
		all.Steps += t.work.Steps
		all.Records += t.work.Records
	}
	return all
}

// State lists the ensemble's tensors for a checkpoint; Steps and SetSteps go
// with it.
func (e *Ensemble) State() []tensor.Param {
	if e.spec.Fresh {
		return nil
	}
	shape := []int{e.spec.Models, e.spec.Classes, e.size}
	return []tensor.Param{{Name: "networks", Shape: shape, Value: e.w}, {Name: "m", Shape: shape, Value: e.m},
		{Name: "v", Shape: shape, Value: e.v}}
}

// Steps returns the number of optimizer steps that each model took; 0 for fresh models.
func (e *Ensemble) Steps() int { return e.steps }

// SetSteps restores the number of optimizer steps.
func (e *Ensemble) SetSteps(n int) { e.steps = n }

// run executes a job for chunks of models. Models share no state, so the result does not depend on the schedule.
func (e *Ensemble) run(job call, t parallel.Task) {
	workers := e.pool.Size()
	job.chunk = max(1, min(16, e.spec.Models/(4*workers)))
	parts := (e.spec.Models + job.chunk - 1) / job.chunk
	for len(e.trainers) < min(workers, parts) {
		e.trainers = append(e.trainers, newTrainer(e.trainers[0].Net.Clone()))
	}
	e.job = job
	e.pool.Each(parts, t)
	e.job = call{}
}

func (e *Ensemble) models(part int) (lo, hi int) {
	return part * e.job.chunk, min((part+1)*e.job.chunk, e.spec.Models)
}
