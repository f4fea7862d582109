package gpate

import (
	"context"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// field is a discriminator whose gradient explains released steps. For each class and column it is linear, and
// quadratic for numbers, in the units of the round's training records. Its gradient by column j of class c is
// at[c][j] + slope[c][j] z_j.
type field struct {
	units     *scaling.Scaler
	width     int
	at, slope []float64 // [classes, width]
}

// widest bounds how far a round may widen a column: a log-ratio of z²/4 doubles the
// variance of a normal one.
const widest = 0.5

// farthest bounds how far a round may move or narrow a column.
const farthest = 2

// fitField fits a field to the steps by least squares, column by column. It fits a few numbers per class
// instead of one per record, so that the noise averages out.
func (t *Trainer) fitField(q *pipeline.TeacherQuestion, r *released) (*field, error) {
	w := q.Width
	units, err := t.units(q)
	if err != nil {
		return nil, err
	}
	f := &field{units: units, width: w, at: make([]float64, t.Classes*w), slope: make([]float64, t.Classes*w)}
	scale := make([]float32, t.Classes*w) // of the noise, by class and column
	for i := range scale {
		scale[i] = 1
	}
	if t.opts.Teacher.Features != "standard" {
		// Convert steps by columns, and their noise, to steps by columns in units of their spread.
		for i, c := range q.Classes {
			row := r.steps[i*w : (i+1)*w]
			units.Change(row, row, c)
		}
		for c := range t.Classes {
			units.Change(scale[c*w:(c+1)*w], scale[c*w:(c+1)*w], c)
		}
	}
	z := units.All(q.Records, q.Classes)
	zw := units.Width()
	number := t.isNumber(w)
	step := t.step()
	for c := range t.Classes {
		for j := range w {
			var n, sz, szz, ss, szs float64
			for i, class := range q.Classes {
				if class != c {
					continue
				}
				v, s := float64(z[i*zw+j]), float64(r.steps[i*w+j])
				n, sz, szz, ss, szs = n+1, sz+v, szz+v*v, ss+s, szs+v*s
			}
			if n == 0 {
				continue
			}
			noise := math.Pow(r.noise*float64(scale[c*w+j]), 2)
			mz := sz / n
			mean, slope := estimate{ss / n, noise / n}, estimate{}
			if number[j] {
				// The 1 in the denominator is a prior of slope 0.
				around := szz - sz*mz + 1
				slope = estimate{(szs - mz*ss) / around, noise / around}
			}
			f.slope[c*w+j] = min(widest, max(-farthest, step*slope.believed()))
			f.at[c*w+j] = min(farthest, max(-farthest, step*mean.believed())) - f.slope[c*w+j]*mz
		}
	}
	return f, nil
}

// estimate is a fitted number, with the variance due to noise.
type estimate struct{ value, variance float64 }

// believed is the estimate, reduced by the part that noise explains.
func (e estimate) believed() float64 { return e.value * trust(e.value, e.variance) }

// trust is the share of an estimate's square that exceeds its variance, at least 0. An estimate that may be
// noise moves nothing; otherwise noise would add up over the rounds (James and Stein 1961, for one number).
func trust(estimate, variance float64) float64 {
	if variance <= 0 {
		return 1
	}
	return math.Max(0, 1-variance/math.Max(estimate*estimate, 1e-300))
}

// of is the field's log-ratio at records.
func (f *field) of(x []float32, classes []int) []float32 {
	z, zw := f.units.All(x, classes), f.units.Width()
	out := make([]float32, len(classes))
	for i, c := range classes {
		var sum float64
		for j := range f.width {
			v := float64(z[i*zw+j])
			sum += v * (f.at[c*f.width+j] + f.slope[c*f.width+j]*v/2)
		}
		out[i] = float32(sum)
	}
	return out
}

// tilt moves the generator to its own distribution tilted by the steps' field.
func (t *Trainer) tilt(ctx context.Context, q *pipeline.TeacherQuestion, r *released) error {
	f, err := t.fitField(q, r)
	if err != nil {
		return err
	}
	return t.mover.Follow(ctx, f.of)
}
