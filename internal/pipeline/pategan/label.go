package pategan

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/optimize"

	"github.com/conclave-dp/conclave/internal/nn/scaling"
)

// labelled holds the queries of one round with what was released about them.
type labelled struct {
	// x holds the records, shape [queries, width].
	x       []float32
	classes []int
	share   []float32
	// known is 1 for answered queries, 0 for others.
	known []float32
	// change is how much the discriminator has changed since the question.
	change []float32
	// noise is the standard deviation of the shares' noise.
	noise float64

	// basis holds x in the units of the current round, shape [queries, features].
	basis []float64
}

// change is a change of the student's discriminator by one round. The discriminator is the log-ratio of real to
// generated records up to a constant per class. The change is linear in the records' standardized columns and
// squares, with weights for all classes together and for each:
//
//	change(x, c) = z(x, c) . (weights[all] + weights[c])
//
// The units are those of the generator at that time, so that a change can be small if the generator is narrow.
// The discriminator is the sum of all changes so far. The fit of a change is convex and deterministic.
type change struct {
	units   *scaling.Scaler
	classes int
	options Student
	// weights has shape [1 + classes, features].
	weights []float64
}

func newChange(units *scaling.Scaler, classes int, o Student) *change {
	return &change{units: units, classes: classes, options: o, weights: make([]float64, (1+classes)*units.Width())}
}

// of returns the change for records x of the classes.
func (d *change) of(x []float32, classes []int) []float32 {
	return d.at(toFloat64(d.units.All(x, classes)), classes)
}

func (d *change) at(basis []float64, classes []int) []float32 {
	out := make([]float32, len(classes))
	values := d.values(nil, d.weights, basis, classes)
	for i, c := range classes {
		out[i] = float32(values[i*(1+d.classes)] + values[i*(1+d.classes)+1+c])
	}
	return out
}

// values returns the products of the basis with each set of weights, shape
// [records, 1 + classes].
func (d *change) values(dst, weights, basis []float64, classes []int) []float64 {
	n, m, k := len(classes), d.units.Width(), 1+d.classes
	dst = resize(dst, n*k)
	if n == 0 {
		return dst
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1,
		blas64.General{Rows: n, Cols: m, Stride: m, Data: basis},
		blas64.General{Rows: k, Cols: m, Stride: m, Data: weights}, 0,
		blas64.General{Rows: n, Cols: k, Stride: k, Data: dst})
	return dst
}

// minNoise bounds the trust in labels of little noise: teachers' shares follow the model of shares below only
// to this precision.
const minNoise = 0.03

// fit finds the weights of the highest posterior density given the rounds, whose last is the done-th of the
// run. The prior of each weight is normal with mean 0 and deviation student.step.
//
// A round's shares of votes are modelled as sigmoid(trust * (f - mean f)). Here f is the discriminator's change
// since the question, and the mean runs over the round's queries of the same class: teachers vote relative to
// the round, so only differences within a round and class carry information.
//
// The logistic loss is weighted so that its curvature at 1/2 is that of the noise's log density. It is linear
// in the share, so its gradient has no bias even if noise puts a share outside [0, 1].
func (d *change) fit(rounds []*labelled, done int) error {
	for _, r := range rounds {
		r.basis = toFloat64(d.units.All(r.x, r.classes))
	}
	problem := optimize.Problem{
		Func: func(w []float64) float64 { return d.loss(nil, w, rounds, done) },
		Grad: func(grad, w []float64) { d.loss(grad, w, rounds, done) },
	}
	settings := &optimize.Settings{
		MajorIterations: 100, GradientThreshold: 1e-3,
		Converger: &optimize.FunctionConverge{Relative: 1e-6, Iterations: 3},
	}
	result, err := optimize.Minimize(problem, d.weights, settings, &optimize.LBFGS{})
	if result == nil {
		return fmt.Errorf("pategan: fit the discriminator: %w", err)
	}
	// An error with a result means that a line search reached the precision of float64: the result is the
	// minimum within that precision.
	copy(d.weights, result.X)
	for _, r := range rounds {
		for j, v := range d.at(r.basis, r.classes) {
			r.change[j] += v
		}
		r.basis = nil
	}
	return nil
}

// loss returns the negative log posterior up to a constant, and writes its
// gradient when grad is not nil.
func (d *change) loss(grad, weights []float64, rounds []*labelled, done int) float64 {
	m, k := d.units.Width(), 1+d.classes
	var sum float64
	for i, w := range weights {
		sum += 0.5 * w * w / (d.options.Step * d.options.Step)
		if grad != nil {
			grad[i] = w / (d.options.Step * d.options.Step)
		}
	}
	trust := d.options.Trust
	var values []float64
	mean, count, pull := make([]float64, d.classes), make([]float64, d.classes), make([]float64, d.classes)
	for i, r := range rounds {
		noise := math.Max(r.noise, minNoise)
		number := done - len(rounds) + 1 + i
		weight := math.Pow(float64(number)/float64(done), d.options.Memory) / (4 * noise * noise)
		values = d.values(values, weights, r.basis, r.classes)
		f := func(q, c int) float64 { return values[q*k] + values[q*k+1+c] + float64(r.change[q]) }
		clear(mean)
		clear(count)
		clear(pull)
		for q, c := range r.classes {
			mean[c] += float64(r.known[q]) * f(q, c)
			count[c] += float64(r.known[q])
		}
		for c := range mean {
			mean[c] /= math.Max(1, count[c])
		}
		slopes := make([]float64, len(r.classes)*k)
		for q, c := range r.classes {
			if r.known[q] == 0 {
				continue
			}
			v, y := trust*(f(q, c)-mean[c]), float64(r.share[q])
			sum += weight * (math.Max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))) - y*v)
			slopes[q*k] = weight * trust * (1/(1+math.Exp(-v)) - y)
			pull[c] += slopes[q*k]
		}
		if grad == nil {
			continue
		}
		for q, c := range r.classes {
			if r.known[q] == 1 {
				slopes[q*k] -= pull[c] / count[c]
				slopes[q*k+1+c] = slopes[q*k]
			}
		}
		blas64.Gemm(blas.Trans, blas.NoTrans, 1,
			blas64.General{Rows: len(r.classes), Cols: k, Stride: k, Data: slopes},
			blas64.General{Rows: len(r.classes), Cols: m, Stride: m, Data: r.basis}, 1,
			blas64.General{Rows: k, Cols: m, Stride: m, Data: grad})
	}
	return sum
}

func resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}

func toFloat64(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
