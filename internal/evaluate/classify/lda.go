package classify

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// leastVariance is the least variance within the classes, of standardized features
// in any direction, that is believed. It is what scikit-learn leaves out; but a
// direction along which only the classes differ is the best there is.
const leastVariance = 1e-8

// Discriminant is linear discriminant analysis (Fisher 1936) without shrinkage:
// LinearDiscriminantAnalysis of scikit-learn with solver lsqr, whose covariance has
// the number of rows as divisor (that of svd is smaller by 2, which scales all
// scores).
type Discriminant struct{ linearModel }

// NewDiscriminant returns linear discriminant analysis.
func NewDiscriminant() *Discriminant { return &Discriminant{} }

// Name is "linear discriminant analysis".
func (*Discriminant) Name() string { return "linear discriminant analysis" }

// Fit inverts the covariance within the classes. The work is
// (rows + columns) x columns^2.
func (l *Discriminant) Fit(r Rows) error {
	t, err := r.prepare()
	if err != nil {
		return fmt.Errorf("linear discriminant analysis: %w", err)
	}
	mean, scale := t.standardization()
	x := standardize(t.x, mean, scale)
	d := x.Cols
	// Means of both classes, of the standardized features.
	var center [2][]float64
	weight := [2]float64{t.neg, t.pos}
	for c := range 2 {
		center[c] = make([]float64, d)
	}
	for i, w := range t.weight {
		c := int(t.label[i])
		for j, v := range x.Row(i) {
			center[c][j] += w / weight[c] * v
		}
	}
	scatter := mat.NewDense(x.Rows, d, x.Data)
	for i, w := range t.weight {
		root := math.Sqrt(w / t.total)
		row, c := scatter.RawRowView(i), center[int(t.label[i])]
		for j := range row {
			row[j] = root * (row[j] - c[j])
		}
	}
	covariance := mat.NewSymDense(d, nil)
	covariance.SymOuterK(1, scatter.T())
	theta, err := solveSpread(covariance, center)
	if err != nil {
		return fmt.Errorf("linear discriminant analysis: %w", err)
	}
	intercept := t.logOdds()
	for j, w := range theta {
		intercept -= w * (center[0][j] + center[1][j]) / 2
	}
	l.set(mean, scale, append(theta, intercept))
	return nil
}

// solveSpread gives the inverse of the covariance times the difference of the
// centers. Dependent columns, as one-hot ones are, have no variance in some
// directions; there the centers do not differ either.
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

// Score gives the log odds of the positive class.
func (l *Discriminant) Score(x Matrix) ([]float64, error) {
	scores, err := l.decisions(x)
	if err != nil {
		return nil, fmt.Errorf("linear discriminant analysis: %w", err)
	}
	return scores, nil
}
