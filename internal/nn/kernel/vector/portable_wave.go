package vector

// waves is how many waves there are in a unit of an angle.
const waves = 0.159154943

// wavesMost is how many waves adding magic can round. Beyond them a float32 says nothing of an angle.
const wavesMost = 1 << 22

// wavePoly is P in sin(2 pi y) = y P(y^2) for |y| <= 1/4, within 4e-8: by interpolation at the zeros
// of Chebyshev's polynomial, in fractions, then rounded to float32.
var wavePoly = [5]float32{6.28318548, -41.3416824, 81.602478, -76.5811691, 39.7598267}

// wavePortable is the cosine of x and a phase, in waves. With f the angle in waves without the
// whole ones, between -1/2 and 1/2, it is the sine of 1/4 - |f|.
func wavePortable(dst, x []float32, phase float32) {
	for i, v := range x {
		t := v*waves + phase
		if !(t > -wavesMost && t < wavesMost) {
			t -= t
		}
		f := t - ((t + magic) - magic)
		if f > 0 {
			f = -f
		}
		y := 0.25 + f
		z := y * y
		p := wavePoly[4]
		p = p*z + wavePoly[3]
		p = p*z + wavePoly[2]
		p = p*z + wavePoly[1]
		p = p*z + wavePoly[0]
		dst[i] = p * y
	}
}
