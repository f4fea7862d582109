//go:build !amd64 || noasm

package vector

func addTruncated(acc []int32, x []float32, scale float32) { addTruncatedPortable(acc, x, scale) }

func addTruncatedOuter(acc []int32, x, d, scales []float32, in, out int) {
	addTruncatedOuterPortable(acc, x, d, scales, in, out)
}

func addSquares(s *[squareSums]float64, x []float32) { addSquaresPortable(s, x) }
