package marginals

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

const (
	// standsOut is how far an eigenvalue must exceed noise, in units of s sqrt(columns): the largest eigenvalue
	// of a symmetric matrix of noise s is near 2 s sqrt(columns) (Wigner 1958).
	standsOut = 2
	// mostFactors is less than half of leastPoints: with fewer points the points of a class could not be
	// uncorrelated.
	mostFactors = 24
	// mostShared is the largest share of a column's variance that comes from its factors.
	mostShared = 0.9
	// refined is the number of times that the diagonal is replaced by the shared variances, which are not
	// measured.
	refined = 6
)

// factors finds the loadings of columns, as rows, on the factors that stand out of the noise of the
// correlations, by principal axis factoring. Eigenvalues are shrunk: with noise s an eigenvalue v of n columns
// becomes sqrt(v^2 - 4 s^2 n), which has the least squared error (Gavish and Donoho, "Optimal shrinkage of
// singular values", 2017). Near the edge of the noise little is left, since directions are mostly noise there.
func factors(correlations *mat.SymDense, noise float64) [][]float64 {
	n := correlations.SymmetricDim()
	loadings := make([][]float64, n)
	edge := noise * math.Sqrt(float64(n))
	if standsOut*edge >= float64(n) { // no eigenvalue is larger than n
		return loadings
	}
	for i := range n {
		correlations.SetSym(i, i, 0)
	}
	var eigen mat.EigenSym
	var vectors mat.Dense
	for range refined {
		if !eigen.Factorize(correlations, true) {
			return make([][]float64, n) // it did not converge: use no factors
		}
		values := eigen.Values(nil) // in rising order
		eigen.VectorsTo(&vectors)
		var scales []float64
		for k := n - 1; k >= max(0, n-mostFactors) && values[k] > max(standsOut*edge, 1); k-- {
			scales = append(scales, math.Sqrt(math.Sqrt(values[k]*values[k]-4*edge*edge)))
		}
		for i := range n {
			loadings[i] = make([]float64, len(scales))
			shared := 0.0
			for k, scale := range scales {
				loadings[i][k] = scale * vectors.At(i, n-1-k)
				shared += loadings[i][k] * loadings[i][k]
			}
			if shared > mostShared {
				for k := range loadings[i] {
					loadings[i][k] *= math.Sqrt(mostShared / shared)
				}
				shared = mostShared
			}
			correlations.SetSym(i, i, shared)
		}
	}
	return loadings
}
