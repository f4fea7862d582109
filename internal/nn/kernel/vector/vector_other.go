//go:build !amd64 || noasm

package vector

func sigmoid(dst, x []float32) { sigmoidPortable(dst, x) }

func tanh(dst, x []float32) { tanhPortable(dst, x) }

func wave(dst, x []float32, phase float32) { wavePortable(dst, x, phase) }

func softplus(dst, x []float32) { softplusPortable(dst, x) }

func softmax(x []float32, rows, cols, stride int) { softmaxPortable(x, rows, cols, stride) }

func leaky(dst, x []float32, slope float32, keep uint32) { leakyPortable(dst, x, slope, keep) }

func leakyGrad(dx, dy, y []float32, slope float32, keep uint32) {
	leakyGradPortable(dx, dy, y, slope, keep)
}

func addScaled(dst, x []float32, a float32) { addScaledPortable(dst, x, a) }

func scale(dst []float32, a float32) { scalePortable(dst, a) }

func lerp(dst, x []float32, keep, take float32) { lerpPortable(dst, x, keep, take) }

func addRowsTo(dst, x []float32, rows, cols int) { addRowsPortable(dst, x, rows, cols) }

func adam(w, m, v, g []float32, c *[8]float32) { adamPortable(w, m, v, g, c) }

func sgd(w, g []float32, keep, rate float32) { sgdPortable(w, g, keep, rate) }

func momentum(w, m, g []float32, keep, rate, momentum float32) {
	momentumPortable(w, m, g, keep, rate, momentum)
}
