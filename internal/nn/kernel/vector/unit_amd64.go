//go:build amd64 && !noasm

package vector

import "github.com/conclave-dp/conclave/internal/nn/kernel"

func rowDots(y, x, w []float32, bias float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		rowDots512(start(y), start(x), start(w), len(y), len(w), bias)
	case kernel.AVX2:
		rowDots256(start(y), start(x), start(w), len(y), len(w), bias)
	default:
		rowDotsPortable(y, x, w, bias)
	}
}

func addWeightedRows(dst, x, d []float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		addWeightedRows512(start(dst), start(x), start(d), len(d), len(dst))
	case kernel.AVX2:
		addWeightedRows256(start(dst), start(x), start(d), len(d), len(dst))
	default:
		addWeightedRowsPortable(dst, x, d)
	}
}

func unitGrad(dx, x, d, w, gw, gb []float32, slope float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		unitGrad512(start(dx), start(x), start(d), start(w), start(gw), start(gb), len(d), len(w), slope)
	case kernel.AVX2:
		unitGrad256(start(dx), start(x), start(d), start(w), start(gw), start(gb), len(d), len(w), slope)
	default:
		unitGradPortable(dx, x, d, w, gw, gb, slope)
	}
}
