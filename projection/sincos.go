package projection

import "math"

// waves is the number of entries in the table of one full period.
const waves = 4096

// wave holds the sine at equal steps of a period, and the first value once more.
var wave = func() (t [waves + 1]float32) {
	for i := range t {
		t[i] = float32(math.Sin(2 * math.Pi * float64(i) / waves))
	}
	return t
}()

// Sincos returns sine and cosine of a to about 1e-6 for small angles, interpolated in a table; the error grows
// with the spacing of float32 numbers at a. Random features need no more precision, and would spend most of their
// time in math.Sincos.
func Sincos(a float32) (sin, cos float32) {
	k, part := inWaves(a)
	return interpolate(k, part), interpolate(k+waves/4, part)
}

// Cosine is the second half of Sincos.
func Cosine(a float32) float32 {
	k, part := inWaves(a)
	return interpolate(k+waves/4, part)
}

// inWaves splits an angle into table steps and the fraction of a step.
func inWaves(a float32) (k int32, part float32) {
	t := a * (waves / (2 * math.Pi))
	k = int32(t)
	if float32(k) > t {
		k--
	}
	return k, t - float32(k)
}

func interpolate(k int32, part float32) float32 {
	k &= waves - 1
	return wave[k] + part*(wave[k+1]-wave[k])
}
