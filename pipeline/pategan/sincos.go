package pategan

import "math"

// sincos returns sine and cosine of a to about 1e-6 for |a| up to some
// thousand. Features need no more, and it takes a fifth of the time of
// math.Sincos, which is where a student would spend most of its own.
func sincos(a float32) (sin, cos float32) {
	const (
		twoOverPi = 2 / math.Pi
		// pi/2 in two parts, the first with few bits: its multiples are exact.
		half1 = 1.5703125
		half2 = math.Pi/2 - 1.5703125
	)
	k := float32(math.Floor(float64(a*twoOverPi + 0.5)))
	r := (a - k*half1) - k*half2
	// Taylor on [-pi/4, pi/4]: the first terms left out are r^9/9! < 4e-7 and
	// r^10/10! < 3e-8.
	r2 := r * r
	s := r * (1 + r2*(-1./6+r2*(1./120+r2*(-1./5040+r2*(1./362880)))))
	c := 1 + r2*(-1./2+r2*(1./24+r2*(-1./720+r2*(1./40320))))
	switch int32(k) & 3 {
	case 0:
		return s, c
	case 1:
		return c, -s
	case 2:
		return -s, -c
	}
	return -c, s
}
