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

// Fitted are coefficients without noise. NOT PRIVATE, any of it: the number of
// iterations depends on the real records as well.
type Fitted struct {
	Beta []float64
	// Residual bounds the norm of the gradient of J at Beta, rounding included. It
	// is the tolerance at most, so that [Sensitivity] may count with that.
	Residual float64
	// Iterations is how often real was asked.
	Iterations int
}

// Fit minimizes J. At each iterate it asks for the real records' sums: of gradients
// (p-1) x, of length Width, and of Hessians p(1-p) x x', upper triangle by rows, both
// not yet divided by n; see [Steps]. What is wrong with the problem is an [ErrSpec] and
// is found before real is asked, sums of other lengths are an [ErrShape], and errors
// of real and ctx are passed on.
//
// It is Newton's method on F = grad J: a step t along p = -H^-1 F is taken as soon as
// |F| falls by t/10 of itself, and shortened by what was seen of the curvature
// otherwise. With exact sums that always converges: F(b + t p) = (1-t) F + e with
// |e| <= t² L |p|²/2, where L = Clip³ (N/n + 1)/10 bounds how fast H changes (the second
// derivative of the logistic function is at most 1/(6 sqrt 3)), so that every t below
// 1.8 |F|/(L |p|²) is taken; |p| <= |F|/Lambda, and no t is tried that is ten times
// smaller than one that was refused. Rounding moves |F| by 2 Rounding from one iterate to
// the next at most, a third of what is left to go. If all of Problem's iterations do
// not do, the error is an [ErrNotConverged].
func Fit(ctx context.Context, p Problem, real func(ctx context.Context, beta []float64) (gradient, hessian []float64,
	err error)) (*Fitted, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	f := &fit{Problem: p, real: real}
	beta := make([]float64, p.Width)
	at, err := f.at(ctx, beta)
	if err != nil {
		return nil, err
	}
	for at.residual > p.tolerance() {
		step := at.newton()
		for t := 1.0; ; {
			trial := slices.Clone(beta)
			addTo(trial, step, t)
			if f.asked == p.iterations() {
				return nil, fmt.Errorf("fit: %w within %d iterations; use a larger lambda", ErrNotConverged, f.asked)
			}
			next, err := f.at(ctx, trial)
			if err != nil {
				return nil, err
			}
			if next.norm <= (1-t/10)*at.norm {
				beta, at = trial, next
				break
			}
			t = shorter(t, at, next)
		}
	}
	return &Fitted{Beta: beta, Residual: at.residual, Iterations: f.asked}, nil
}

// shorter is the step at which (1-t)|F| + c t² is smallest, with c as seen at the
// longer t.
func shorter(t float64, at, next point) float64 {
	bend := 0.0
	for i, g := range next.gradient {
		bend = math.Hypot(bend, g-(1-t)*at.gradient[i])
	}
	best := at.norm / (2 * bend) * t * t
	if !(best > t/10) { // NaN as well
		return t / 10
	}
	return min(best, t/2)
}

// fit is a problem with the way to its real side.
type fit struct {
	Problem
	real  func(ctx context.Context, beta []float64) (gradient, hessian []float64, err error)
	asked int
}

// point is what is known at an iterate.
type point struct {
	gradient []float64
	norm     float64 // of gradient
	residual float64 // norm, and what rounding may hide
	hessian  *mat.SymDense
}

// at evaluates J's gradient and Hessian.
func (f *fit) at(ctx context.Context, beta []float64) (point, error) {
	d := f.Width
	g, h, err := f.real(ctx, slices.Clone(beta))
	if err != nil {
		return point{}, fmt.Errorf("fit: sums over real records: %w", err)
	}
	f.asked++
	if len(g) != d || len(h) != Triangle(d) {
		return point{}, fmt.Errorf("fit: sums over real records: %w: %d and %d numbers for %d features", ErrShape,
			len(g), len(h), d)
	}
	gradient, hessian, err := f.synthetic(ctx, beta)
	if err != nil {
		return point{}, err
	}
	addTo(gradient, g, 1/f.Records)
	addTo(gradient, beta, f.Lambda)
	sum := mat.NewSymDense(d, nil)
	at := 0
	for i := range d {
		for j := i; j < d; j++ {
			sum.SetSym(i, j, hessian.At(i, j)+h[at]/f.Records)
			at++
		}
		sum.SetSym(i, i, sum.At(i, i)+f.Lambda)
	}
	norm := math.Sqrt(dot(gradient, gradient))
	lost := f.lost(math.Sqrt(dot(beta, beta))) + norm*0x1p-40
	if !(norm+mat.Norm(sum, 1) < math.Inf(1)) {
		return point{}, fmt.Errorf("fit: sums over real records: %w: they are not finite", ErrSpec)
	}
	return point{gradient: gradient, norm: norm, residual: norm + f.Rounding + lost, hessian: sum}, nil
}

// chunk is how many synthetic records are worked on at a time.
const chunk = 512

// synthetic is the synthetic records' part of gradient and Hessian, means over them.
func (f *fit) synthetic(ctx context.Context, beta []float64) ([]float64, *mat.SymDense, error) {
	d, m := f.Width, len(f.Synthetic)/f.Width
	gradient, hessian := make([]float64, d), mat.NewSymDense(d, nil)
	scaled, part := make([]float64, chunk*d), make([]float64, d)
	for lo := 0; lo < m; lo += chunk {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		n := min(chunk, m-lo)
		clear(part)
		for r := range n {
			x := f.Synthetic[(lo+r)*d : (lo+r+1)*d]
			p := sigmoid(dot(beta, x)) // of being real
			addTo(part, x, p/float64(m))
			to := scaled[r*d : (r+1)*d]
			clear(to)
			addTo(to, x, math.Sqrt(p*(1-p)/float64(m)))
		}
		addTo(gradient, part, 1)
		blas64.Syrk(blas.Trans, 1, blas64.General{Rows: n, Cols: d, Stride: d, Data: scaled}, 1, hessian.RawSymmetric())
	}
	return gradient, hessian, nil
}

// newton is the step -H^-1 F.
func (p point) newton() []float64 {
	d := len(p.gradient)
	step := mat.NewVecDense(d, nil)
	var c mat.Cholesky
	// Rounded sums may be a little short of positive definite; a ridge repairs that, and
	// -(H + ridge)^-1 F still leads down.
	for ridge := 0.0; ; ridge = max(2*ridge, 1e-12*mat.Norm(p.hessian, 1), 1e-200) {
		h := mat.NewSymDense(d, nil)
		h.CopySym(p.hessian)
		for i := range d {
			h.SetSym(i, i, h.At(i, i)+ridge)
		}
		if c.Factorize(h) && c.SolveVecTo(step, mat.NewVecDense(d, p.gradient)) == nil {
			step.ScaleVec(-1, step)
			return step.RawVector().Data
		}
	}
}
