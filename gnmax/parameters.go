package gnmax

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// ErrParameter matches, with errors.Is, the error for a noise parameter that cannot be used.
var ErrParameter = errors.New("unusable noise parameter")

// errZeroParameter reports a Sigma or Scale that was not made by its constructor: its zero value would mean no noise.
var errZeroParameter = fmt.Errorf("%w: it was not made by its constructor", ErrParameter)

func parameterErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrParameter}, args...)...)
}

const (
	maxSigma = 1 << 29
	// maxScale bounds the scale of Laplace noise, 2^38.
	maxScale = 1 << 38
)

// Sigma is the standard deviation of integer Gaussian noise for which the ledger charges. [NewSigma] makes it.
type Sigma struct {
	sigma float64
	// The noise has variance parameter t w/q, the form in which the sampler
	// needs it: t is floor(sqrt of it)+1, q a power of two with t q below 2^30,
	// and w below 2^31.
	t, w, q uint64
}

// NewSigma accepts numbers from [privacy.MinSigma] to 2^29; the error for others matches [ErrParameter].
func NewSigma(sigma float64) (Sigma, error) {
	if math.IsNaN(sigma) || math.IsInf(sigma, 0) {
		return Sigma{}, parameterErrorf("sigma is %v; it must be a finite number", sigma)
	}
	return exactSigma(new(big.Rat).SetFloat64(sigma))
}

// exactSigma is NewSigma for a number that need not be a float64.
func exactSigma(sigma *big.Rat) (Sigma, error) {
	charged, _ := sigma.Float64()
	if sigma.Cmp(big.NewRat(privacy.MinSigma, 1)) < 0 || sigma.Cmp(big.NewRat(maxSigma, 1)) > 0 {
		return Sigma{}, parameterErrorf("sigma is %v; it must lie between %v and %v", charged, privacy.MinSigma,
			maxSigma)
	}
	v := new(big.Rat).Mul(sigma, sigma)
	s := sigmaOfVariance(v.Add(v, margin(sigma)))
	s.sigma = charged
	return s, nil
}

// margin is the amount above sigma² that the variance of the noise needs for the charge to hold. The package's
// documentation has the two proofs.
func margin(sigma *big.Rat) *big.Rat {
	if sigma.Cmp(big.NewRat(computedBelow, 1)) < 0 {
		return big.NewRat(1, 8)
	}
	return big.NewRat(5, 1)
}

// computedBelow is the sigma up to which the margin is computed.
const computedBelow = 256

// sigmaOfVariance rounds a variance parameter below 2^59 up to the sampler's form. It has no charge, so other packages
// cannot call it.
func sigmaOfVariance(v *big.Rat) Sigma {
	whole := new(big.Int).Quo(v.Num(), v.Denom())
	t := whole.Sqrt(whole).Uint64() + 1
	q := uint64(1) << (30 - bits.Len64(t))
	// w = ceil(v q/t): upwards is more noise.
	v = new(big.Rat).Mul(v, new(big.Rat).SetFrac(new(big.Int).SetUint64(q), new(big.Int).SetUint64(t)))
	w, remainder := new(big.Int).QuoRem(v.Num(), v.Denom(), new(big.Int))
	if remainder.Sign() > 0 {
		w.Add(w, big.NewInt(1))
	}
	return Sigma{t: t, w: w.Uint64(), q: q}
}

// Float returns the number that Sigma was made from.
func (s Sigma) Float() float64 { return s.sigma }

// Scale is the scale of discrete Laplace noise, an exact fraction, made by
// [NewScale].
type Scale struct{ num, den uint64 }

// NewScale makes the scale num/den, at most 2^38.
func NewScale(num, den uint64) (Scale, error) {
	if num == 0 || den == 0 {
		return Scale{}, parameterErrorf("scale is %d/%d; both numbers must be above zero", num, den)
	}
	if hi, lo := bits.Mul64(den, maxScale); hi == 0 && lo < num {
		return Scale{}, parameterErrorf("scale is %d/%d; it must be at most 2^38", num, den)
	}
	return Scale{num: num, den: den}, nil
}

// scaleFor returns unit/epsilon, rounded up to a fraction of 63-bit numbers.
func scaleFor(unit uint64, epsilon float64) (Scale, error) {
	if !(epsilon > 0) || math.IsInf(epsilon, 0) {
		return Scale{}, parameterErrorf("epsilon is %v; it must be a finite number above zero", epsilon)
	}
	_, exponent := math.Frexp(epsilon) // epsilon < 2^exponent
	shift := 63 - max(bits.Len64(unit), exponent, 0)
	if shift < 0 {
		return Scale{}, parameterErrorf("epsilon is %v for a unit of %d; both must be below 2^62", epsilon, unit)
	}
	// Both products are exact; the conversion rounds down, which is more noise.
	den := uint64(math.Ldexp(epsilon, shift))
	if den == 0 {
		return Scale{}, parameterErrorf("epsilon is %v for a unit of %d; the noise would be larger than 2^38", epsilon,
			unit)
	}
	return NewScale(unit<<shift, den)
}
