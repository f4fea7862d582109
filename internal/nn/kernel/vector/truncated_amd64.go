//go:build amd64 && !noasm

package vector

import (
	"unsafe"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
)

func addTruncated(acc []int32, x []float32, scale float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		addTruncated512(unsafe.SliceData(acc), start(x), len(acc), scale)
	case kernel.AVX2:
		addTruncated256(unsafe.SliceData(acc), start(x), len(acc), scale)
	default:
		addTruncatedPortable(acc, x, scale)
	}
}

func addTruncatedOuter(acc []int32, x, d, scales []float32, in, out int) {
	switch kernel.Active() {
	case kernel.AVX512:
		addTruncatedOuter512(unsafe.SliceData(acc), start(x), start(d), start(scales), len(scales), in, out)
	case kernel.AVX2:
		addTruncatedOuter256(unsafe.SliceData(acc), start(x), start(d), start(scales), len(scales), in, out)
	default:
		addTruncatedOuterPortable(acc, x, d, scales, in, out)
	}
}

func addSquares(s *[squareSums]float64, x []float32) {
	switch kernel.Active() {
	case kernel.AVX512:
		addSquares512(s, start(x), len(x))
	case kernel.AVX2:
		addSquares256(s, start(x), len(x))
	default:
		addSquaresPortable(s, x)
	}
}
