package ensemble

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// scoreRows is the number of records that are scored, or fill a batch, at once: enough for the kernels to be fast,
// few enough to stay in the cache.
const scoreRows = 64

// trainPart takes the steps of some models.
func (e *Ensemble) trainPart(part int, w *parallel.Worker) {
	s := e.trainers[w.Index]
	lo, hi := e.models(part)
	for i := lo; i < hi; i++ {
		for c := range e.spec.Classes {
			if len(e.records.byClass[c]) > 0 {
				e.train(s, i, c, &e.job.real[i])
			}
		}
	}
}

// train takes the steps of one network; if there is nothing to learn from, those of a copy that is discarded. Its
// random numbers depend only on the model, the class and the steps taken so far.
func (e *Ensemble) train(s *trainer, model, class int, real *Examples) {
	w, m, v := e.params(e.w, model, class), e.params(e.m, model, class), e.params(e.v, model, class)
	if real.none(class) {
		s.begin(w)
		w, m, v = s.own, s.m, s.v
	}
	s.Take(w)
	e.take(s, model, class, real, w, m, v)
}

// take takes the steps of a network with weights w and moments m and v. The amount of work depends on the
// generated records, which are public, and not on the real ones.
func (e *Ensemble) take(s *trainer, model, class int, real *Examples, w, m, v []float32) {
	s.pcg.Seed(e.spec.Seed^uint64(e.steps)<<20, uint64(model*e.spec.Classes+class))
	var rows []float32
	if real.View == nil {
		rows = real.ByClass[class]
	}
	for i, step := range e.job.steps {
		if e.ended() {
			return
		}
		if real.View != nil && (i == 0 || real.View.Len(class) > e.job.rows) { // otherwise they stay the same
			rows = s.some(real.View, class, e.job.rows)
		}
		clear(s.Grad)
		s.accumulate(rows, e.records.byClass[class], e.job.rows, e.spec.Loss, true)
		s.accumulate(e.records.byClass[class], nil, e.job.rows, e.spec.Loss, false)
		s.work.Steps++
		vector.Adam(w, m, v, s.Grad, step)
	}
}

// roundPart trains some models and visits each.
func (e *Ensemble) roundPart(part int, w *parallel.Worker) {
	s := e.trainers[w.Index]
	lo, hi := e.models(part)
	for i := lo; i < hi; i++ {
		e.visit(s, i, func(c int) {
			real := &e.job.real[i]
			trains := len(e.records.byClass[c]) > 0
			switch {
			case !e.spec.Fresh && trains:
				e.train(s, i, c, real)
				s.Take(e.params(e.w, i, c))
			case !e.spec.Fresh:
				s.Take(e.params(e.w, i, c))
			default:
				s.begin(e.w)
				if trains {
					e.take(s, i, c, real, s.own, s.m, s.v)
				}
				if real.none(c) { // what it learned is discarded
					s.begin(e.w)
				}
			}
		})
	}
}

// scorePart evaluates some models, class by class and block by block.
func (e *Ensemble) scorePart(part int, w *parallel.Worker) {
	s, n := e.trainers[w.Index], len(e.records.place)
	lo, hi := e.models(part)
	for i := lo; i < hi; i++ {
		out, place := e.job.out[i*n:(i+1)*n], e.records.place
		for c, rows := range e.records.byClass {
			s.Take(e.params(e.w, i, c))
			for len(rows) > 0 {
				k := min(scoreRows, len(rows)/e.in)
				for j, v := range s.Net.Forward(rows[:k*e.in], k) {
					out[place[j]] = v
				}
				rows, place = rows[k*e.in:], place[k:]
			}
		}
	}
}

// gradientPart visits some models.
func (e *Ensemble) gradientPart(part int, w *parallel.Worker) {
	s := e.trainers[w.Index]
	lo, hi := e.models(part)
	for i := lo; i < hi; i++ {
		e.visit(s, i, func(c int) { s.Take(e.params(e.w, i, c)) })
	}
}

// visit visits a model; ready loads its network of a class.
func (e *Ensemble) visit(s *trainer, model int, ready func(class int)) {
	place := e.asked.place
	s.dx = tensor.Resize(s.dx, len(place)*e.in)
	for c, rows := range e.asked.byClass {
		n := len(rows) / e.in
		ready(c)
		scores := s.Net.Forward(rows, n)
		s.scores = tensor.Resize(s.scores, n)
		e.job.loss.Gradient(s.scores, scores, true)
		vector.Scale(s.scores, float32(n)) // from the gradient of the mean to that of each record
		dx := s.Net.Backward(s.scores, false, true)
		for j := range n {
			copy(s.dx[place[j]*e.in:(place[j]+1)*e.in], dx[j*e.in:])
		}
		place = place[n:]
	}
	e.job.visit(model, s.dx)
}

// classRecords are records sorted by their class, for the length of a call.
type classRecords struct {
	byClass [][]float32
	// place has the original positions of the records of class 0, then of class 1, and so on.
	place []int
}

// split copies the records x of shape [len(classes), in].
func (r *classRecords) split(x []float32, classes []int, count, in int) error {
	if len(x) != len(classes)*in {
		return fmt.Errorf("ensemble: %d values for %d records of %d features", len(x), len(classes), in)
	}
	for _, c := range classes {
		if c < 0 || c >= count {
			return fmt.Errorf("ensemble: class %d of %d", c, count)
		}
	}
	if r.byClass == nil {
		r.byClass = make([][]float32, count)
	}
	r.place = r.place[:0]
	for c := range r.byClass {
		r.byClass[c] = r.byClass[c][:0]
		for i, class := range classes {
			if class == c {
				r.byClass[c] = append(r.byClass[c], x[i*in:(i+1)*in]...)
				r.place = append(r.place, i)
			}
		}
	}
	return nil
}
