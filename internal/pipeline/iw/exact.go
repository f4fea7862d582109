package iw

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/conclave-dp/conclave/internal/ratio"
)

// exactly finds log-weights by the coefficients of a logistic regression on the real rows of evaluate.train.
// Newton's method runs until it converges. NOT PRIVATE.
func (w *weigher) exactly(ctx context.Context) ([]float64, error) {
	w.s.Note("NOT PRIVATE: the weights come from a regression on the real rows of evaluate.train.")
	rows, err := w.seen()
	if err != nil {
		return nil, w.failed(err)
	}
	real := w.s.Encoder.Encode(w.s.Real)
	j := objective{
		lambda: w.o.Lambda, width: rows.features.Width(),
		real: Vectors(rows.features, real.Features, real.Classes), synthetic: rows.vectors,
	}
	if j.lambda == 0 {
		j.lambda = Lambda(ratio.None, 0, rows.spec.Clip, float64(real.Len()), j.width)
	}
	beta, err := j.minimize(ctx, rows.spec.Clip)
	if err != nil {
		return nil, fmt.Errorf("weights: a regression on real rows: %w", err)
	}
	return ratio.LogWeights(beta, rows.vectors, ratio.Noise{})
}

// objective is the sum of the mean losses of a regression on both kinds of rows, and of a penalty.
type objective struct {
	lambda          float64
	width           int
	real, synthetic []float64 // features, shape [rows, width]
}

// minimize returns the coefficients with the least loss, for features with an L2 norm of at most clip.
func (j objective) minimize(ctx context.Context, clip float64) ([]float64, error) {
	result, err := optimize.Minimize(optimize.Problem{
		Func:   func(beta []float64) float64 { return j.at(beta, nil, nil) },
		Grad:   func(gradient, beta []float64) { j.at(beta, gradient, nil) },
		Hess:   func(hessian *mat.SymDense, beta []float64) { j.at(beta, make([]float64, j.width), hessian) },
		Status: func() (optimize.Status, error) { return optimize.NotTerminated, ctx.Err() },
	}, make([]float64, j.width), &optimize.Settings{GradientThreshold: 1e-9 * clip}, &optimize.Newton{})
	if result == nil || ctx.Err() != nil {
		return nil, err
	}
	// A line search fails if losses differ by less than float64 precision, about 1e-16. A gradient of 1e-6 is
	// far above the gradient at that point.
	gradient := make([]float64, j.width)
	j.at(result.X, gradient, nil)
	if left := floats.Norm(gradient, 2); err != nil && !(left <= 1e-6*clip) {
		return nil, fmt.Errorf("the gradient is %.3g still: %w", left, err)
	}
	return result.X, nil
}

// at returns the loss, and adds up its gradient and Hessian unless they are nil.
func (j objective) at(beta, gradient []float64, hessian *mat.SymDense) float64 {
	loss := j.lambda / 2 * floats.Dot(beta, beta)
	if gradient != nil {
		floats.ScaleTo(gradient, j.lambda, beta)
	}
	if hessian != nil {
		hessian.Zero()
		for i := range j.width {
			hessian.SetSym(i, i, j.lambda)
		}
	}
	for _, side := range []struct {
		rows []float64
		sign float64
	}{{j.real, 1}, {j.synthetic, -1}} {
		each := 1 / float64(len(side.rows)/j.width)
		for i := 0; i < len(side.rows); i += j.width {
			x := side.rows[i : i+j.width]
			t := side.sign * floats.Dot(beta, x)
			loss += each * (max(0, -t) + math.Log1p(math.Exp(-math.Abs(t))))
			q := 1 / (1 + math.Exp(t)) // of the other side
			if gradient != nil {
				floats.AddScaled(gradient, -side.sign*q*each, x)
			}
			if hessian != nil {
				hessian.SymRankOne(hessian, q*(1-q)*each, mat.NewVecDense(j.width, x))
			}
		}
	}
	return loss
}
