package vector

import "fmt"

// RowDots is y[i] = bias + sum over j of x[i*cols+j]*w[j]: the outputs of one unit
// for rows of x, of shape [len(y), cols].
func RowDots(y, x, w []float32, bias float32) {
	sameLength("RowDots", len(x), len(y)*len(w))
	rowDots(y, x, w, bias)
}

// AddWeightedRows adds to dst[j] the sum over i of d[i]*x[i*cols+j]: the gradient of
// a unit's weights, for x of shape [len(d), len(dst)].
func AddWeightedRows(dst, x, d []float32) {
	sameLength("AddWeightedRows", len(x), len(dst)*len(d))
	addWeightedRows(dst, x, d)
}

// UnitGrad takes the gradient d of a unit's outputs back through the unit and the
// leaky rectifiers before it, whose outputs x have shape [len(d), len(w)]:
//
//	gw[j] += sum over i of d[i]*x[i,j]                (of the unit's weights)
//	dx[i,j] = d[i]*w[j], times slope where x[i,j] <= 0 (of the rectifiers' inputs)
//	gb[j] += sum over i of dx[i,j]                    (of their biases)
//
// Dx may be x. Slope and all numbers must be finite.
func UnitGrad(dx, x, d, w, gw, gb []float32, slope float32) {
	sameLength("UnitGrad", len(x), len(d)*len(w))
	sameLength("UnitGrad", len(dx), len(x))
	if len(gw) != len(w) || len(gb) != len(w) {
		panic(fmt.Sprintf("vector: UnitGrad with gradients of %d and %d numbers for %d weights",
			len(gw), len(gb), len(w)))
	}
	unitGrad(dx, x, d, w, gw, gb, slope)
}

func rowDotsPortable(y, x, w []float32, bias float32) {
	for i := range y {
		y[i] = bias + dotPortable(x[i*len(w):(i+1)*len(w)], w)
	}
}

func addWeightedRowsPortable(dst, x, d []float32) {
	for i, a := range d {
		addScaledPortable(dst, x[i*len(dst):(i+1)*len(dst)], a)
	}
}

func unitGradPortable(dx, x, d, w, gw, gb []float32, slope float32) {
	n := len(w)
	for i, a := range d {
		from, to := x[i*n:(i+1)*n], dx[i*n:(i+1)*n]
		for j, v := range from {
			g := a * w[j]
			if v <= 0 {
				g *= slope
			}
			gw[j] += a * v
			gb[j] += g
			to[j] = g
		}
	}
}
