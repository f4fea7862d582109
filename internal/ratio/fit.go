package ratio

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// Sums are sums over the real units at given coefficients. NOT PRIVATE.
type Sums struct {
	Gradient []float64 // of (p-1) x, length Width
	Hessian  []float64 // of p(1-p) x x', the upper triangle row by row
	Units    float64   // the number of units
}

// Fit returns coefficients within Tolerance/Lambda of the minimizer of J, in L2, for all possible records. It
// calls real for the sums at an iterate exactly [Problem.Passes] times. An invalid problem is an [ErrSpec], found
// before real is called; sums of wrong lengths are an [ErrShape]; errors of real and ctx are passed on. The result
// is NOT PRIVATE.
//
// Each pass is one step of Newton's method, with penalties that decrease to Lambda. path.go proves that the passes
// are enough.
func Fit(ctx context.Context, p Problem, real func(ctx context.Context, beta []float64) (Sums, error)) ([]float64,
	error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	beta := make([]float64, p.Width)
	for _, mu := range path {
		sums, err := real(ctx, slices.Clone(beta))
		if err != nil {
			return nil, fmt.Errorf("fit: sums over real records: %w", err)
		}
		if err := p.step(ctx, beta, mu, sums); err != nil {
			return nil, err
		}
	}
	return beta, nil
}

// step moves beta by one step of Newton's method on J with penalty mu.
func (p Problem) step(ctx context.Context, beta []float64, mu float64, real Sums) error {
	d := p.Width
	if len(real.Gradient) != d || len(real.Hessian) != Triangle(d) {
		return fmt.Errorf("fit: sums over real records: %w: %d and %d numbers for %d features", ErrShape,
			len(real.Gradient), len(real.Hessian), d)
	}
	gradient, synthetic, err := p.synthetic(ctx, beta)
	if err != nil {
		return err
	}
	weight := weigh(real.Units, p.Records) / p.Records
	addTo(gradient, real.Gradient, weight)
	addTo(gradient, beta, mu)
	hessian := mat.NewSymDense(d, nil)
	at := 0
	for i := range d {
		for j := i; j < d; j++ {
			hessian.SetSym(i, j, synthetic.At(i, j)+real.Hessian[at]*weight)
			at++
		}
		hessian.SetSym(i, i, hessian.At(i, i)+mu)
	}
	if !(dot(gradient, gradient)+mat.Norm(hessian, 1) < math.Inf(1)) {
		return fmt.Errorf("fit: sums over real records: %w: they are not finite", ErrSpec)
	}
	addTo(beta, newton(gradient, hessian), 1)
	return nil
}

// chunk is the number of synthetic records processed at a time.
const chunk = 512

// synthetic returns the synthetic records' part of the gradient and the Hessian.
func (p Problem) synthetic(ctx context.Context, beta []float64) ([]float64, *mat.SymDense, error) {
	d, m := p.Width, len(p.Synthetic)/p.Width
	gradient, hessian := make([]float64, d), mat.NewSymDense(d, nil)
	scaled, part := make([]float64, chunk*d), make([]float64, d)
	each := syntheticWeight / float64(m)
	for lo := 0; lo < m; lo += chunk {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		n := min(chunk, m-lo)
		clear(part)
		for r := range n {
			x := p.Synthetic[(lo+r)*d : (lo+r+1)*d]
			q := sigmoid(dot(beta, x)) // probability of being real
			addTo(part, x, q*each)
			to := scaled[r*d : (r+1)*d]
			clear(to)
			addTo(to, x, math.Sqrt(q*(1-q)*each))
		}
		addTo(gradient, part, 1)
		blas64.Syrk(blas.Trans, 1, blas64.General{Rows: n, Cols: d, Stride: d, Data: scaled}, 1, hessian.RawSymmetric())
	}
	return gradient, hessian, nil
}

// newton returns the step -H^-1 g.
func newton(gradient []float64, hessian *mat.SymDense) []float64 {
	d := len(gradient)
	step := mat.NewVecDense(d, nil)
	var c mat.Cholesky
	// H is at least the penalty. Sums from nodes that violate the protocol may break that; a ridge then repairs H,
	// so that a fit always ends after its passes.
	for ridge := 0.0; ; ridge = max(2*ridge, 1e-12*mat.Norm(hessian, 1), 1e-200) {
		h := mat.NewSymDense(d, nil)
		h.CopySym(hessian)
		for i := range d {
			h.SetSym(i, i, h.At(i, i)+ridge)
		}
		if c.Factorize(h) && c.SolveVecTo(step, mat.NewVecDense(d, gradient)) == nil {
			step.ScaleVec(-1, step)
			return step.RawVector().Data
		}
	}
}
