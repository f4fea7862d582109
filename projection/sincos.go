package projection

import "math"

// waves is the number of entries of the table of a whole wave.
const waves = 4096

// wave holds the sine of each part of a wave, and the first once more.
var wave = func() (t [waves + 1]float32) {
	for i := range t {
		t[i] = float32(math.Sin(2 * math.Pi * float64(i) / waves))
	}
	return t
}()

// Sincos returns sine and cosine of a to about 1e-6, interpolated in a table,
// for small angles; the error grows with the last place of a. Random features need no
// more, and would spend most of their time in math.Sincos.
func Sincos(a float32) (sin, cos float32) {
	k, part := inWaves(a)
	return interpolate(k, part), interpolate(k+waves/4, part)
}

// Cosine is the second half of Sincos.
func Cosine(a float32) float32 {
	k, part := inWaves(a)
	return interpolate(k+waves/4, part)
}

// inWaves splits an angle into whole parts of a wave and the rest.
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
