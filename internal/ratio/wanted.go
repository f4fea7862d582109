package ratio

import "math"

// Wanted is a fit to be released, with the values that follow from its public numbers. The fitting server and
// readers of the release compute the same ones.
type Wanted struct {
	Problem Problem // with rounding and tolerance
	Steps   Steps
	Lattice Lattice
	// L2 and L1 bound, in steps of the lattice, how far a privacy unit moves the rounded coefficients.
	L2, L1 int64
}

// NewWanted fills in the values for sums in the finest steps over at most MostUnits units. It refuses a problem
// for which a fixed number of passes is not proven to be enough.
func NewWanted(p Problem) (*Wanted, error) {
	w := &Wanted{Problem: p, Steps: Steps{Width: p.Width, Clip: p.Clip, Bound: FinestBound}}
	w.Problem.Rounding = w.Steps.Rounding()
	if err := w.Problem.Validate(); err != nil {
		return nil, err
	}
	if _, err := w.Problem.Passes(); err != nil {
		return nil, err
	}
	l2, err := w.Problem.Sensitivity()
	if err != nil {
		return nil, err
	}
	if w.Lattice, err = LatticeFor(l2, p.Width); err != nil {
		return nil, err
	}
	if w.L2, err = w.Lattice.Sensitivity(l2, p.Width); err != nil {
		return nil, err
	}
	w.L1, err = w.Lattice.L1Sensitivity(l2, p.Width)
	return w, err
}

// Scale converts a noise scale in steps of the lattice to one in coefficients.
func (w *Wanted) Scale(kind NoiseKind, steps float64) Noise {
	return Noise{Kind: kind, Scale: math.Abs(steps) * w.Lattice.Step()}
}
