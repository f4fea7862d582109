//go:build amd64 && !noasm

package vector

import (
	"unsafe"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
)

// start is where the numbers of a slice lie, which may be empty.
func start(x []float32) *float32 { return unsafe.SliceData(x) }

func sigmoid(dst, x []float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		sigmoid512(start(dst), start(x), len(dst))
	case kernel.AVX2:
		sigmoid256(start(dst), start(x), len(dst))
	default:
		sigmoidPortable(dst, x)
	}
}

func tanh(dst, x []float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		tanh512(start(dst), start(x), len(dst))
	case kernel.AVX2:
		tanh256(start(dst), start(x), len(dst))
	default:
		tanhPortable(dst, x)
	}
}

func wave(dst, x []float32, phase float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		wave512(start(dst), start(x), len(dst), phase)
	case kernel.AVX2:
		wave256(start(dst), start(x), len(dst), phase)
	default:
		wavePortable(dst, x, phase)
	}
}

func softplus(dst, x []float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		softplus512(start(dst), start(x), len(dst))
	case kernel.AVX2:
		softplus256(start(dst), start(x), len(dst))
	default:
		softplusPortable(dst, x)
	}
}

func softmax(x []float32, rows, cols, stride int) {
	switch {
	case kernel.Active() == kernel.AVX512 && cols > 8: // short rows take half as long in short vectors
		softmax512(start(x), rows, cols, stride)
	case kernel.Active() >= kernel.AVX2:
		softmax256(start(x), rows, cols, stride)
	default:
		softmaxPortable(x, rows, cols, stride)
	}
}

func leaky(dst, x []float32, slope float32, keep uint32) {
	switch kernel.Active() {
	case kernel.AVX512:
		leaky512(start(dst), start(x), len(dst), slope, keep)
	case kernel.AVX2:
		leaky256(start(dst), start(x), len(dst), slope, keep)
	default:
		leakyPortable(dst, x, slope, keep)
	}
}

func leakyGrad(dx, dy, y []float32, slope float32, keep uint32) {
	switch kernel.Active() {
	case kernel.AVX512:
		leakyGrad512(start(dx), start(dy), start(y), len(dx), slope, keep)
	case kernel.AVX2:
		leakyGrad256(start(dx), start(dy), start(y), len(dx), slope, keep)
	default:
		leakyGradPortable(dx, dy, y, slope, keep)
	}
}

func addScaled(dst, x []float32, a float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		addScaled512(start(dst), start(x), len(dst), a)
	case kernel.AVX2:
		addScaled256(start(dst), start(x), len(dst), a)
	default:
		addScaledPortable(dst, x, a)
	}
}

func scale(dst []float32, a float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		scale512(start(dst), len(dst), a)
	case kernel.AVX2:
		scale256(start(dst), len(dst), a)
	default:
		scalePortable(dst, a)
	}
}

func lerp(dst, x []float32, keep, take float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		lerp512(start(dst), start(x), len(dst), keep, take)
	case kernel.AVX2:
		lerp256(start(dst), start(x), len(dst), keep, take)
	default:
		lerpPortable(dst, x, keep, take)
	}
}

func addRowsTo(dst, x []float32, rows, cols int) {
	switch kernel.Active() {
	case kernel.AVX512:
		addRows512(start(dst), start(x), rows, cols)
	case kernel.AVX2:
		addRows256(start(dst), start(x), rows, cols)
	default:
		addRowsPortable(dst, x, rows, cols)
	}
}

func adam(w, m, v, g []float32, c *[8]float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		adam512(start(w), start(m), start(v), start(g), len(w), c)
	case kernel.AVX2:
		adam256(start(w), start(m), start(v), start(g), len(w), c)
	default:
		adamPortable(w, m, v, g, c)
	}
}

func sgd(w, g []float32, keep, rate float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		sgd512(start(w), start(g), len(w), keep, rate)
	case kernel.AVX2:
		sgd256(start(w), start(g), len(w), keep, rate)
	default:
		sgdPortable(w, g, keep, rate)
	}
}

func momentum(w, m, g []float32, keep, rate, momentum float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		momentum512(start(w), start(m), start(g), len(w), keep, rate, momentum)
	case kernel.AVX2:
		momentum256(start(w), start(m), start(g), len(w), keep, rate, momentum)
	default:
		momentumPortable(w, m, g, keep, rate, momentum)
	}
}
