package classify

import "slices"

// Bins of a column: usualBins are quick and enough for nearly everything; mostBins,
// which is what a cell can tell apart, hold each value of most columns by itself.
const (
	usualBins = 256
	mostBins  = 1 << 16
)

// bins is a table whose numbers were replaced by the index of the interval
// they fall in: column j of row i is cells[j][i].
type bins struct {
	rows  int
	cells [][]uint16
	cuts  [][]float64 // per column, ascending; bin k holds cuts[k-1] < v <= cuts[k]
	// The smallest and the largest value of each bin of a column.
	low, high [][]float64
}

// binned sorts each column into at most limit bins: one per distinct value
// where that is enough, otherwise bins of about equal weight.
func binned(t training, limit int) bins {
	x := t.x
	b := bins{
		rows: x.Rows, cells: make([][]uint16, x.Cols), cuts: make([][]float64, x.Cols),
		low: make([][]float64, x.Cols), high: make([][]float64, x.Cols),
	}
	parallel(x.Cols, func() func(j int) {
		column := make([]float64, x.Rows)
		return func(j int) {
			for i := range x.Rows {
				column[i] = x.Data[i*x.Cols+j]
			}
			values, mass := distinct(column, t)
			ends := binEnds(values, mass, limit)
			b.cuts[j], b.low[j], b.high[j] = intervals(values, ends)
			b.cells[j] = make([]uint16, x.Rows)
			for i := range x.Rows {
				k, _ := slices.BinarySearch(b.cuts[j], x.Data[i*x.Cols+j])
				b.cells[j][i] = uint16(k)
			}
		}
	})
	return b
}

// distinct sorts the column and gives its distinct values with the weight of
// the rows up to each.
func distinct(column []float64, t training) (values, mass []float64) {
	rows := slices.Clone(column)
	slices.Sort(column)
	for i, v := range column {
		if i == 0 || v > column[i-1] {
			values, mass = append(values, v), append(mass, 0)
		}
		mass[len(mass)-1] = float64(i + 1)
	}
	if t.uniform {
		return values, mass
	}
	clear(mass)
	for i, v := range rows {
		k, _ := slices.BinarySearch(values, v)
		mass[k] += t.weight[i]
	}
	for k := 1; k < len(mass); k++ {
		mass[k] += mass[k-1]
	}
	return values, mass
}

// binEnds gives the indices of the last values of fewer than limit bins, without
// that of the last bin.
func binEnds(values, mass []float64, limit int) []int {
	var ends []int
	last := len(values) - 1
	if last < limit {
		for k := range last {
			ends = append(ends, k)
		}
		return ends
	}
	// For each of the evenly spaced ranks, the value that goes beyond it.
	at := 0
	for k := 1; k < limit; k++ {
		for at < last && mass[at]*float64(limit) <= float64(k)*mass[last] {
			at++
		}
		if at < last && (len(ends) == 0 || at > ends[len(ends)-1]) {
			ends = append(ends, at)
		}
	}
	return ends
}

// intervals gives the cuts behind the ends of bins, and the bins' extremes.
func intervals(values []float64, ends []int) (cuts, low, high []float64) {
	cuts = make([]float64, 0, len(ends))
	low, high = append(low, values[0]), make([]float64, 0, len(ends)+1)
	for _, e := range ends {
		cuts = append(cuts, between(values[e], values[e+1]))
		low, high = append(low, values[e+1]), append(high, values[e])
	}
	return cuts, low, append(high, values[len(values)-1])
}

// between is a number from low up to, but below high.
func between(low, high float64) float64 {
	cut := low + (high-low)/2
	if !(cut < high) { // neighbouring floats
		cut = low
	}
	return cut
}
