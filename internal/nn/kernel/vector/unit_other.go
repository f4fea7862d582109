//go:build !amd64 || noasm

package vector

func rowDots(y, x, w []float32, bias float32) { rowDotsPortable(y, x, w, bias) }

func addWeightedRows(dst, x, d []float32) { addWeightedRowsPortable(dst, x, d) }

func unitGrad(dx, x, d, w, gw, gb []float32, slope float32) {
	unitGradPortable(dx, x, d, w, gw, gb, slope)
}
