// Package vector has the functions of vectors of float32 numbers that training needs.
//
// They take slices of one length, which may be 0, at any place in memory. A result may be one
// of the inputs, but must not overlap them otherwise.
//
// Errors are in units of the last place of the exact result (ulp) and hold for all
// float32 arguments at each level, so two levels differ by twice as much at most.
// NaN becomes NaN, unless said otherwise. Results of [Sigmoid], [Softplus]
// and [Softmax] that would be below about 2^-125 are 0: processors take a hundred
// times as long for denormal numbers.
package vector

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
)

// Sigmoid is dst[i] = 1/(1 + e^-x[i]) within 3 ulp: 0 for x below -86.98 and for
// -Inf, 1 for +Inf.
func Sigmoid(dst, x []float32) {
	sameLength("Sigmoid", len(dst), len(x))
	sigmoid(dst, x)
}

// Tanh is dst[i] = tanh x[i] within 3 ulp: an odd function, -0 for -0, -1 and 1 for
// -Inf and +Inf.
func Tanh(dst, x []float32) {
	sameLength("Tanh", len(dst), len(x))
	tanh(dst, x)
}

// Softplus is dst[i] = log(1 + e^x[i]) within 3 ulp: 0 for x below -86.98 and for
// -Inf, +Inf for +Inf.
func Softplus(dst, x []float32) {
	sameLength("Softplus", len(dst), len(x))
	softplus(dst, x)
}

// Softmax turns each row of x, of shape [rows, cols], into its shares e^x_j / sum
// e^x_k, in place. Elements of -Inf become 0; a row with NaN or +Inf, or of -Inf
// only, becomes NaN. Differences from the row's largest element are rounded to
// float32; but for that the error is at most cols + 10 times 2^-24 of a share.
func Softmax(x []float32, rows, cols int) { SoftmaxOf(kernel.Of(x, rows, cols)) }

// SoftmaxOf is [Softmax] for a matrix that may have gaps but is not transposed: a
// group of columns of a wider matrix.
func SoftmaxOf(m kernel.Matrix) {
	m.Check("X")
	if m.Transposed {
		panic("vector: the rows of a transposed matrix are not contiguous")
	}
	if m.Cols > 0 {
		softmax(m.Data, m.Rows, m.Cols, m.Stride)
	}
}

// LeakyReLU is dst[i] = x[i], or slope*x[i] where x[i] is below 0. A slope of 0
// gives 0 there, also for -Inf. -0 stays what it is.
func LeakyReLU(dst, x []float32, slope float32) {
	sameLength("LeakyReLU", len(dst), len(x))
	leaky(dst, x, slope, leakBits(slope))
}

// LeakyReLUGrad is the gradient of LeakyReLU, by its result y: dx[i] = dy[i], or
// slope*dy[i] where y[i] is at most 0, of either sign, since 0 is what a slope of 0
// makes of all numbers below. Where y is NaN, dx is dy. A slope of 0 gives 0, also
// for an infinite dy.
func LeakyReLUGrad(dx, dy, y []float32, slope float32) {
	sameLength("LeakyReLUGrad", len(dx), len(dy))
	sameLength("LeakyReLUGrad", len(dx), len(y))
	leakyGrad(dx, dy, y, slope, leakBits(slope))
}

// leakBits is the mask for a number times slope: all bits, or none for a slope of 0.
func leakBits(slope float32) uint32 {
	if slope == 0 {
		return 0
	}
	return ^uint32(0)
}

// AddScaled is dst[i] += a*x[i], rounded once or twice.
func AddScaled(dst, x []float32, a float32) {
	sameLength("AddScaled", len(dst), len(x))
	addScaled(dst, x, a)
}

// Scale is dst[i] *= a.
func Scale(dst []float32, a float32) { scale(dst, a) }

// Lerp is dst[i] = keep*dst[i] + (1-keep)*x[i], a moving average.
func Lerp(dst, x []float32, keep float32) {
	sameLength("Lerp", len(dst), len(x))
	lerp(dst, x, keep, 1-keep)
}

// AddRows adds to dst[j] the sum of column j of x, of shape [rows, cols]. Row i of
// the whole groups of four goes to sum i mod 4 and each row of the rest to sum 0;
// the sums are added as (0+1)+(2+3), and then to dst.
func AddRows(dst, x []float32, rows, cols int) {
	sameLength("AddRows", len(dst), cols)
	kernel.Of(x, rows, cols).Check("X")
	if rows > 0 && cols > 0 {
		addRowsTo(dst, x, rows, cols)
	}
}

func sameLength(name string, a, b int) {
	if a != b {
		panic(fmt.Sprintf("vector: %s of %d and %d numbers", name, a, b))
	}
}
