package ratio

import (
	"fmt"
	"math"
)

// Lattice is the set of values to which coefficients are rounded before noise is added: multiples of a step, in
// each coordinate. The noise of package gnmax is an integer.
type Lattice struct{ step float64 }

// NewLattice makes a lattice. Its step must be a power of two from 2^-200 to 2^200, so that dividing by it is
// exact; anything else is an [ErrSpec].
func NewLattice(step float64) (Lattice, error) {
	if fraction, exponent := math.Frexp(step); fraction != 0.5 || exponent < -199 || exponent > 201 {
		return Lattice{}, fmt.Errorf("lattice: %w: step is %v; it must be a power of two between 2^-200 and 2^200",
			ErrSpec, step)
	}
	return Lattice{step: step}, nil
}

// finer is the largest share of the sensitivity that rounding may add.
const finer = 0x1p-14

// LatticeFor makes the lattice with the largest step at which rounding adds at most 2^-14 of the sensitivity, in
// L2. Rounding the sensitivity up to an integer adds less than one more step.
func LatticeFor(sensitivity float64, width int) (Lattice, error) {
	if width < 1 || !(sensitivity > 0) || math.IsInf(sensitivity, 0) {
		return Lattice{}, fmt.Errorf("lattice: %w: sensitivity is %v and width %d; both must be above zero and finite",
			ErrSpec, sensitivity, width)
	}
	_, exponent := math.Frexp(sensitivity * finer / math.Sqrt(float64(width)))
	return NewLattice(math.Ldexp(1, exponent-1))
}

// Step is the distance between neighbours.
func (l Lattice) Step() float64 { return l.step }

// maxSteps is the bound to which coefficients are clipped.
const maxSteps = 1 << 60

// Round returns the coefficients in steps, rounded to the nearest integer. Those beyond 2^60 steps are clipped to
// that: an error would reveal something about real records.
func (l Lattice) Round(beta []float64) []int64 {
	steps := make([]int64, len(beta))
	for i, b := range beta {
		// Neither conversion sees more than 2^60; NaN becomes zero.
		if x := math.RoundToEven(b / l.step); !math.IsNaN(x) {
			steps[i] = int64(max(-maxSteps, min(maxSteps, x)))
		}
	}
	return steps
}

// Values converts steps back into coefficients.
func (l Lattice) Values(steps []int64) []float64 {
	beta := make([]float64, len(steps))
	for i, x := range steps {
		beta[i] = float64(x) * l.step
	}
	return beta
}

// Sensitivity bounds, in L2 and in whole steps, how far rounded coefficients move if they move by at most l2
// before rounding: l2/step + sqrt(width), rounded up.
//
// Why: division by the step is exact. Rounding moves each coordinate by at most half a step, so by one step on
// both sides together: a vector of at most sqrt(width) steps. Clipping to a range never increases a distance.
func (l Lattice) Sensitivity(l2 float64, width int) (int64, error) {
	return l.moved(l2, width, 1)
}

// L1Sensitivity is the same in L1: sqrt(width) (l2/step + sqrt(width)), rounded up.
func (l Lattice) L1Sensitivity(l2 float64, width int) (int64, error) {
	return l.moved(l2, width, math.Sqrt(float64(width)))
}

func (l Lattice) moved(l2 float64, width int, factor float64) (int64, error) {
	if l.step == 0 || width < 1 || !(l2 >= 0) {
		return 0, fmt.Errorf("lattice: %w: sensitivity is %v, width %d and step %v", ErrSpec, l2, width, l.step)
	}
	// Below 2^38 the slack is far less than a step, and far more than the error of 5 roundings.
	steps := math.Ceil(factor * (l2/l.step + math.Sqrt(float64(width))) * (1 + 0x1p-48))
	if steps > 1<<38 {
		return 0, fmt.Errorf("lattice: %w: a sensitivity of %v is %v steps of %v, and noise has room for 2^38", ErrSpec,
			l2, steps, l.step)
	}
	return int64(steps), nil
}
