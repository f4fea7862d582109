// Package normal has the tails of the standard normal distribution, without underflow.
package normal

import "math"

// Mills is Mills' ratio: the tail of the normal distribution above x over its
// density at x. It stays a plain number where both underflow. x is above -30.
func Mills(x float64) float64 {
	if x < 4 {
		return math.Sqrt(math.Pi/2) * math.Exp(x*x/2) * math.Erfc(x/math.Sqrt2)
	}
	// Laplace's continued fraction 1/(x+1/(x+2/(x+3/(x+...)))), from within.
	// From 4 on, 40 terms leave no error above rounding.
	f := x
	for k := 40; k >= 1; k-- {
		f = x + float64(k)/f
	}
	return 1 / f
}

// Density is the density of the standard normal distribution.
func Density(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

// Tail is P[N(0,1) > x].
func Tail(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// Tails is Tail(-x) and Tail(x), to the last bit, for the price of one but where both are large.
func Tails(x float64) (below, above float64) {
	z := x / math.Sqrt2
	// Beyond this math.Erfc is 2 less itself on the other side.
	const far = 1.25
	if math.Abs(z) < far || math.IsNaN(z) {
		return math.Erfc(-z) / 2, math.Erfc(z) / 2
	}
	small := math.Erfc(math.Abs(z))
	if below, above = (2-small)/2, small/2; z < 0 {
		below, above = above, below
	}
	return below, above
}

// LogTail is the logarithm of P[N(0,1) > x] for x >= 0.
func LogTail(x float64) float64 {
	return -x*x/2 - math.Log(2*math.Pi)/2 + math.Log(Mills(x))
}

// TailInverse is the x >= 0 with log P[N(0,1) > x] = logTail, for logTail
// at most log 1/2, by Newton steps: the derivative is -1/Mills(x), and the
// logarithm of the tail is concave, so steps from the right never overshoot.
func TailInverse(logTail float64) float64 {
	x := math.Sqrt(-2 * logTail) // exp(-x²/2) bounds the tail: this lies right of it
	for range 100 {
		step := (LogTail(x) - logTail) * Mills(x)
		x += step
		if math.Abs(step) <= 1e-15*x {
			break
		}
	}
	return x
}
