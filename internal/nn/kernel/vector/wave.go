package vector

// Cosine is dst[i] = cos x[i], off by 2e-7 (1 + |x[i]|) at most. NaN and infinities become NaN.
func Cosine(dst, x []float32) {
	sameLength("Cosine", len(dst), len(x))
	wave(dst, x, 0)
}

// Sine is dst[i] = sin x[i], with the error of [Cosine].
func Sine(dst, x []float32) {
	sameLength("Sine", len(dst), len(x))
	wave(dst, x, -0.25)
}
