package vector

import "fmt"

// Whole numbers from float32, whose sums do not depend on the order. Every level
// gives the same bits.

// AddTruncated is acc[i] += x[i]*scale, the product rounded to float32 and then cut
// to a whole number, towards zero. No product may reach 2^30 in magnitude or be
// NaN, and no sum may leave the int32 numbers: what comes then depends on the level.
func AddTruncated(acc []int32, x []float32, scale float32) {
	sameLength("AddTruncated", len(acc), len(x))
	addTruncated(acc, x, scale)
}

// AddTruncatedOuter adds to acc, of shape [in, out], the outer products of the rows
// of x and d, of shapes [rows, in] and [rows, out], each with its scale:
//
//	acc[i,j] += sum over r of trunc((x[r,i]*d[r,j]) * scales[r])
//
// Both products are rounded to float32, so that a row adds what [AddTruncated] adds
// of the gradient of a dense layer's weights by one record. Its conditions hold for
// the products here as well.
func AddTruncatedOuter(acc []int32, x, d, scales []float32) {
	rows := len(scales)
	if rows == 0 {
		return
	}
	in, out := len(x)/rows, len(d)/rows
	if len(x) != rows*in || len(d) != rows*out || len(acc) != in*out {
		panic(fmt.Sprintf("vector: AddTruncatedOuter of %d and %d numbers in %d rows to %d",
			len(x), len(d), rows, len(acc)))
	}
	if out == 1 { // a product is the same from either side, and rows are better long
		x, d, in, out = d, x, out, in
	}
	if in > 0 && out > 0 {
		addTruncatedOuter(acc, x, d, scales, in, out)
	}
}

// squareSums is how many sums SumSquares64 has.
const squareSums = 32

// SumSquares64 returns the sum of x[i]*x[i] in float64, which holds each square
// exactly and overflows for no finite x. Term i goes to sum i mod 32; the sums are
// added in pairs, those 16 apart first. So the error is at most n/32 + 5 times 2^-53
// of the sum.
func SumSquares64(x []float32) float64 {
	var s [squareSums]float64
	whole := len(x) / squareSums * squareSums
	addSquares(&s, x[:whole])
	for i, v := range x[whole:] {
		s[i] += float64(v) * float64(v)
	}
	for n := squareSums / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[n+i]
		}
	}
	return s[0]
}

func addTruncatedPortable(acc []int32, x []float32, scale float32) {
	for i, v := range x {
		acc[i] += int32(float32(v * scale))
	}
}

func addTruncatedOuterPortable(acc []int32, x, d, scales []float32, in, out int) {
	for i := range in {
		to := acc[i*out : (i+1)*out]
		for r, scale := range scales {
			v := x[r*in+i]
			if v == 0 {
				continue
			}
			for j, w := range d[r*out : (r+1)*out] {
				to[j] += int32(float32(float32(v*w) * scale))
			}
		}
	}
}

func addSquaresPortable(s *[squareSums]float64, x []float32) {
	for ; len(x) >= squareSums; x = x[squareSums:] {
		for i, v := range x[:squareSums] {
			s[i] += float64(v) * float64(v)
		}
	}
}
