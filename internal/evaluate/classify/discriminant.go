package classify

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// leastVariance is the smallest variance within the classes, of standardized features in any direction, that is
// used. scikit-learn leaves smaller ones out; but a direction in which only the classes differ is the best one.
const leastVariance = 1e-8

// discriminant is linear discriminant analysis (Fisher 1936) without shrinkage:
// LinearDiscriminantAnalysis of scikit-learn with solver lsqr, whose covariance has
// the number of rows as divisor (that of svd is smaller by 2, which scales all
// scores). Scores are the log odds of the positive class. The work is
// (rows + columns) x columns^2.
func discriminant() *Classifier {
	return classifier("linear discriminant analysis", 0, func(t training) (scorer, error) {
		return decisions(fitDiscriminant(t))
	})
}

// fitDiscriminant inverts the covariance within the classes.
func fitDiscriminant(t training) (linearModel, error) {
	mean, scale := t.standardization()
	x := standardize(t.x, mean, scale)
	center := t.centers(x)
	scatter := mat.NewDense(x.Rows, x.Cols, x.Data)
	for i, w := range t.weight {
		root := math.Sqrt(w / t.total)
		row, c := scatter.RawRowView(i), center[int(t.label[i])]
		for j := range row {
			row[j] = root * (row[j] - c[j])
		}
	}
	covariance := mat.NewSymDense(x.Cols, nil)
	covariance.SymOuterK(1, scatter.T())
	theta, err := solveSpread(covariance, center)
	if err != nil {
		return linearModel{}, err
	}
	intercept := t.logOdds()
	for j, w := range theta {
		intercept -= w * (center[0][j] + center[1][j]) / 2
	}
	return linearModel{mean, scale, append(theta, intercept)}, nil
}

// solveSpread returns the inverse of the covariance times the difference of the centers. Dependent columns,
// such as one-hot ones, have no variance in some directions; the centers do not differ in these either.
func solveSpread(covariance *mat.SymDense, center [2][]float64) ([]float64, error) {
	var eigen mat.EigenSym
	if !eigen.Factorize(covariance, true) {
		return nil, errors.New("the covariance has no eigenvalues that can be computed: check for extreme values")
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	d := covariance.SymmetricDim()
	apart := make([]float64, d)
	for j := range apart {
		apart[j] = center[1][j] - center[0][j]
	}
	var turned, solution mat.VecDense
	turned.MulVec(vectors.T(), mat.NewVecDense(d, apart))
	for k, v := range eigen.Values(nil) {
		turned.SetVec(k, turned.AtVec(k)/math.Max(v, leastVariance))
	}
	solution.MulVec(&vectors, &turned)
	return solution.RawVector().Data, nil
}
