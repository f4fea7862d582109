package measure

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Frechet is the Fréchet distance of two normal distributions with the means and
// covariances of the rows a and b (Dowson and Landau 1982):
//
//	|mean(a) - mean(b)|^2 + tr(A + B - 2 (A B)^(1/2))
//
// It needs at least two finite rows of each and the same number of columns.
// Small samples give too large a distance.
func Frechet(a, b *mat.Dense) (float64, error) {
	n, d := a.Dims()
	m, e := b.Dims()
	if d != e || n < 2 || m < 2 {
		return 0,
			fmt.Errorf("frechet distance of %d x %d and %d x %d numbers: at least two rows of equal width are needed",
				n, d, m, e)
	}
	var covA, covB mat.SymDense
	stat.CovarianceMatrix(&covA, a, nil)
	stat.CovarianceMatrix(&covB, b, nil)
	distance := mat.Trace(&covA) + mat.Trace(&covB)
	for j := range d {
		gap := stat.Mean(mat.Col(nil, j, a), nil) - stat.Mean(mat.Col(nil, j, b), nil)
		distance += gap * gap
	}
	// tr (A B)^(1/2) is the sum of the roots of the eigenvalues of R B R with R the
	// root of A, which is symmetric.
	root, err := rootOf(&covA)
	if err != nil {
		return 0, err
	}
	var product mat.Dense
	product.Product(root, &covB, root)
	symmetric := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			symmetric.SetSym(i, j, (product.At(i, j)+product.At(j, i))/2)
		}
	}
	values, _, err := eigen(symmetric, false)
	if err != nil {
		return 0, err
	}
	for _, v := range values {
		distance -= 2 * math.Sqrt(math.Max(0, v))
	}
	// Rounding may leave equal samples a little below zero.
	return math.Max(0, distance), nil
}

// rootOf is the symmetric square root of a covariance matrix.
func rootOf(s *mat.SymDense) (*mat.Dense, error) {
	values, vectors, err := eigen(s, true)
	if err != nil {
		return nil, err
	}
	d := len(values)
	scaled := mat.NewDense(d, d, nil)
	for i := range d {
		for j := range d {
			scaled.Set(i, j, vectors.At(i, j)*math.Sqrt(math.Max(0, values[j])))
		}
	}
	var root mat.Dense
	root.Mul(scaled, vectors.T())
	return &root, nil
}

func eigen(s *mat.SymDense, vectors bool) ([]float64, *mat.Dense, error) {
	d := s.SymmetricDim()
	for i := range d {
		for j := i; j < d; j++ {
			if v := s.At(i, j); math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, nil, errors.New("frechet distance: a feature is not a finite number")
			}
		}
	}
	var e mat.EigenSym
	if !e.Factorize(s, vectors) {
		return nil, nil, errors.New("frechet distance: the eigenvalues cannot be computed")
	}
	if !vectors {
		return e.Values(nil), nil, nil
	}
	var v mat.Dense
	e.VectorsTo(&v)
	return e.Values(nil), &v, nil
}

// ClassifierScore is exp of the mean Kullback-Leibler divergence of each row of class probabilities from their
// mean (the inception score of Salimans et al. 2016, with any classifier): 1 for rows that all look alike, the
// number of classes for rows that are certain and evenly spread. It fails for no rows, and for a row that is
// not a distribution.
func ClassifierScore(probabilities *mat.Dense) (float64, error) {
	n, k := probabilities.Dims()
	if n == 0 || k == 0 {
		return 0, errors.New("classifier score: there are no rows")
	}
	mean := make([]float64, k)
	for i := range n {
		sum := 0.0
		for j, p := range probabilities.RawRowView(i) {
			if !(p >= 0 && p <= 1+1e-6) {
				return 0, fmt.Errorf("classifier score: row %d holds %v, which is not a probability", i+1, p)
			}
			sum += p
			mean[j] += p / float64(n)
		}
		if math.Abs(sum-1) > 1e-4 {
			return 0, fmt.Errorf("classifier score: the probabilities of row %d add up to %v", i+1, sum)
		}
	}
	divergence := 0.0
	for i := range n {
		for j, p := range probabilities.RawRowView(i) {
			if p > 0 {
				divergence += p * math.Log(p/mean[j])
			}
		}
	}
	return math.Exp(divergence / float64(n)), nil
}
