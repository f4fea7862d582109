package ratio

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Pass adds up what a node's privacy units contribute to the sums of one iterate. It is not safe for concurrent
// use.
//
// Gradients are added unit by unit in whole steps (see [Steps.Add]): they determine the result of the fit, so a
// unit's contribution must be bounded. Hessians only affect the path to it. They are added in floating point, many
// records at a time, and rounded to integers once.
type Pass struct {
	steps    Steps
	beta     []float64
	gradient []int64
	units    int64
	hessian  blas64.Symmetric
	// scaled holds the records since the last flush, times the square root of their weight; rows counts them.
	scaled []float64
	rows   int
}

// NewPass begins the sums at coefficients beta.
func NewPass(s Steps, beta []float64) (*Pass, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	d := s.Width
	if len(beta) != d {
		return nil, fmt.Errorf("pass: %w: %d coefficients for %d features", ErrShape, len(beta), d)
	}
	return &Pass{
		steps: s, beta: beta, gradient: make([]int64, d), scaled: make([]float64, chunk*d),
		hessian: blas64.Symmetric{N: d, Stride: d, Data: make([]float64, d*d), Uplo: blas.Upper},
	}, nil
}

// Add adds one privacy unit, with records as in [Steps.Add].
func (p *Pass) Add(records []float64) error {
	if err := p.steps.Add(p.gradient, p.beta, records); err != nil {
		return err
	}
	d := p.steps.Width
	k := len(records) / d
	if k > 0 {
		p.units++
	}
	for r := range k {
		x := records[r*d : (r+1)*d]
		length, q := math.Sqrt(dot(x, x)), sigmoid(dot(p.beta, x))
		weight := math.Sqrt(q * (1 - q) / float64(k))
		if !(length <= p.steps.Clip*(1+0x1p-20)) || math.IsNaN(weight) {
			continue // not made by Features
		}
		to := p.scaled[p.rows*d : (p.rows+1)*d]
		for i, v := range x {
			to[i] = weight * v
		}
		if p.rows++; p.rows == chunk {
			p.flush()
		}
	}
	return nil
}

func (p *Pass) flush() {
	d := p.steps.Width
	blas64.Syrk(blas.Trans, 1, blas64.General{Rows: p.rows, Cols: d, Stride: d, Data: p.scaled}, 1, p.hessian)
	p.rows = 0
}

// Sums returns the sums in whole steps: the gradient, the number of units, and the Hessian's upper triangle.
// Gradient and triangle are at most Bound for each unit added.
func (p *Pass) Sums() []int64 {
	p.flush()
	d := p.steps.Width
	scale := float64(p.steps.Bound) / (p.steps.Clip * p.steps.Clip)
	sums := append(make([]int64, 0, p.steps.Entries()), p.gradient...)
	sums = append(sums, p.units)
	for i := range d {
		for _, v := range p.hessian.Data[i*d+i : (i+1)*d] {
			sums = append(sums, int64(math.RoundToEven(v*scale)))
		}
	}
	return sums
}
