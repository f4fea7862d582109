package ratio

import (
	"fmt"
	"math"
)

// NoiseKind is the distribution of the noise on coefficients.
type NoiseKind string

const (
	// None leaves weights as they are.
	None NoiseKind = ""
	// Laplace is independent in each coordinate, with density proportional to
	// exp(-|z|/Scale).
	Laplace NoiseKind = "laplace"
	// NormGamma has a density proportional to exp(-|z|_2/Scale): its length is Gamma distributed with shape d, its
	// direction uniform.
	NormGamma NoiseKind = "norm-gamma"
	// Gaussian is independent in each coordinate, with standard deviation Scale.
	Gaussian NoiseKind = "gaussian"
)

// Noise describes the noise added to coefficients. The zero value is no noise.
//
// Package gnmax draws noise on a lattice of step g and not from the real numbers. For lattice noise the moment of
// [Noise.LogMoment] is off by a factor that differs from 1 by at most
//
//   - g²/(12 Scale²) for each coordinate of Laplace noise: with a = g/(2 Scale), y = g x/2 and r = y²/a² its
//     moment is 1/(1 - sinh²(y)/sinh²(a)), and sinh²(y)/sinh²(a) lies between r (1 - (a²-y²)/3) and r;
//   - 4 d exp(-2 pi² Scale²/g²) for Gaussian noise, by Poisson summation. Here Scale² is the variance that is
//     drawn (gnmax's Sigma.Variance), slightly more than what is charged;
//   - 20 d (2 pi Scale/g)^-(d+1) for norm-Gamma noise, by Poisson summation, and
//     2^-9 g/Scale, since gnmax rounds lengths to 2^-10 steps.
//
// On a lattice from [LatticeFor], with pure epsilon up to 10, the total is at most 1.3e-7 epsilon. The
// coefficients are rounded to the lattice, which moves log-weights by at most g |x|_1/2.
type Noise struct {
	Kind  NoiseKind
	Scale float64 // in units of the coefficients, above zero unless Kind is None
}

// RangeError names the record for which the noise is too large.
type RangeError struct {
	Kind NoiseKind
	Row  int
	// Size is the record's largest |x_j| for Laplace noise, its |x|_2 for norm-Gamma noise. It must be below
	// Limit, 1/Scale.
	Size, Limit float64
}

func (e *RangeError) Error() string {
	size := "length"
	if e.Kind == Laplace {
		size = "largest feature"
	}
	return fmt.Sprintf("record %d: its %s is %.4g, but %s noise on the coefficients allows only less than %.4g, or "+
		"its weight has no mean; use a larger lambda, more epsilon, a smaller clip, or gaussian "+
		"noise", e.Row, size, e.Size, e.Kind, e.Limit)
}

func (e *RangeError) Is(target error) bool { return target == ErrRange }

// Validate reports why the noise is unusable, as an [ErrSpec].
func (n Noise) Validate() error {
	switch n.Kind {
	case None:
		return nil
	case Laplace, NormGamma, Gaussian:
		if !(n.Scale > 0) || math.IsInf(n.Scale, 0) {
			return fmt.Errorf("noise: %w: scale is %v; it must be a finite number above zero", ErrSpec, n.Scale)
		}
		return nil
	}
	return fmt.Errorf("noise: %w: kind is %q; use %s, %s or %s", ErrSpec, n.Kind, Laplace, NormGamma, Gaussian)
}

// LogMoment is log E exp(z.x) over the noise z: the logarithm of the factor by which exp((beta+z).x) is too large
// on average. Dividing by it makes weights unbiased (Ghalebikesabi et al. 2022). Errors are [RangeError]s and name
// the record row. An unbiased weight has a variance only if 2x is in range as well.
//
//   - Laplace, scale s, |x_j| < 1/s: coordinates are independent, and the integral of
//     exp(-|z|/s + z x)/(2 s) is [1/(1/s - x) + 1/(1/s + x)]/(2 s) = 1/(1 - s² x²).
//   - Norm-Gamma, |x| < 1/s: exp(-a r) is the integral over u > 0 of
//     a/(2 sqrt pi) u^-3/2 exp(-a²/(4u)) exp(-u r²), a mixture of Gaussians, and
//     that of exp(-u |z|² + z.x) over z is (pi/u)^(d/2) exp(|x|²/(4u)). So the whole is
//     proportional to the integral of u^-(d+3)/2 exp(-(a² - |x|²)/(4u)) over u, that is to
//     (a² - |x|²)^-(d+1)/2; with a = 1/s and relative to x = 0 it is
//     (1 - s² |x|²)^-(d+1)/2.
//   - Gaussian: exp(s² |x|²/2), for all x, by completing the square.
func (n Noise) LogMoment(row int, x []float64) (float64, error) {
	switch n.Kind {
	case Laplace:
		largest, log := 0.0, 0.0
		for _, v := range x {
			largest = max(largest, math.Abs(v))
			log -= math.Log1p(-square(n.Scale * v))
		}
		if !(n.Scale*largest < 1) {
			return 0, &RangeError{Kind: n.Kind, Row: row, Size: largest, Limit: 1 / n.Scale}
		}
		return log, nil
	case NormGamma:
		squares := dot(x, x)
		if !(square(n.Scale)*squares < 1) {
			return 0, &RangeError{Kind: n.Kind, Row: row, Size: math.Sqrt(squares), Limit: 1 / n.Scale}
		}
		return -float64(len(x)+1) / 2 * math.Log1p(-square(n.Scale)*squares), nil
	case Gaussian:
		return square(n.Scale) * dot(x, x) / 2, nil
	}
	return 0, nil
}

// Check reports whether the noise can be corrected in all records x, shape [m, width]. It needs no coefficients
// and so costs no budget: call it before they are released.
func (n Noise) Check(x []float64, width int) error {
	if err := n.Validate(); err != nil {
		return err
	}
	if width < 1 || len(x)%width != 0 {
		return fmt.Errorf("noise: %w: %d numbers of records for %d features", ErrShape, len(x), width)
	}
	for row := range len(x) / width {
		if _, err := n.LogMoment(row, x[row*width:(row+1)*width]); err != nil {
			return fmt.Errorf("noise: %w", err)
		}
	}
	return nil
}

func square(x float64) float64 { return x * x }
