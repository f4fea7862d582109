package relabel

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
	"github.com/conclave-dp/conclave/internal/nn/kernel/gemm"
)

// ridge is the number added to the products of directions, in units of their noise in any direction. From 1 on,
// noise makes no product negative; measured on Fashion-MNIST's training images.
const ridge = 1.3

// floor, times the largest variance, is added to each, so that directions without variation stay small.
const floor = 1e-3

var errEigen = errors.New("a matrix of strokes has no eigenvectors; the images hold no usable numbers")

// varied finds the directions, at most most, in which rows x of count numbers vary most, each scaled to about the same
// variance. It returns the mean, and the directions with shape [count, directions].
func varied(x []float32, count, most int) (mean, matrix []float32, err error) {
	n := len(x) / count
	sum := make([]float64, count)
	for i, v := range x {
		sum[i%count] += float64(v) / float64(n)
	}
	centred := make([]float32, len(x))
	for i, v := range x {
		centred[i] = float32((float64(v) - sum[i%count]) / math.Sqrt(float64(n)))
	}
	of, squares := kernel.Of(centred, n, count), make([]float32, count*count)
	gemm.Multiply(kernel.Of(squares, count, count), of.T(), of, gemm.Epilogue{})
	covariance := mat.NewSymDense(count, nil)
	for i := range count {
		for j := i; j < count; j++ {
			covariance.SetSym(i, j, float64(squares[i*count+j]))
		}
	}
	var e mat.EigenSym
	if !e.Factorize(covariance, true) {
		return nil, nil, errEigen
	}
	var vectors mat.Dense
	e.VectorsTo(&vectors)
	values := e.Values(nil) // in rising order
	most = min(most, count)
	matrix = make([]float32, count*most)
	for k := range most {
		at := count - 1 - k
		scale := 1 / math.Sqrt(max(0, values[at])+floor*values[count-1])
		if values[count-1] <= 0 {
			scale = 1 // all images are alike
		}
		for j := range count {
			matrix[j*most+k] = float32(scale * vectors.At(j, at))
		}
	}
	for _, v := range sum {
		mean = append(mean, float32(v))
	}
	return mean, matrix, nil
}

// solve is ridge regression of the classes, 1 for an image's own and 0 for others, less the mean over all
// classes. It returns coefficients with shape [width, classes].
func solve(products, classes []float64, width int, ridge float64) ([]float32, error) {
	var e mat.EigenSym
	if !e.Factorize(mat.NewSymDense(width, products), true) {
		return nil, errEigen
	}
	var vectors, turned, rule mat.Dense
	e.VectorsTo(&vectors)
	n := len(classes) / width
	wanted := mat.NewDense(width, n, nil)
	for j := range width {
		var all float64
		for c := range n {
			all += classes[c*width+j]
		}
		for c := range n {
			wanted.Set(j, c, classes[c*width+j]-all/float64(n))
		}
	}
	turned.Mul(vectors.T(), wanted)
	for i, value := range e.Values(nil) {
		for c := range n {
			turned.Set(i, c, turned.At(i, c)/(max(0, value)+ridge)) // noise alone makes products negative
		}
	}
	rule.Mul(&vectors, &turned)
	out := make([]float32, width*n)
	for i := range out {
		out[i] = float32(rule.At(i/n, i%n))
	}
	return out, nil
}
