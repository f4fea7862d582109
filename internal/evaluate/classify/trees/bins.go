package trees

import "slices"

// The number of bins of a column. Usual is quick and almost always enough. Most, the limit of a cell, gives
// each value of most columns its own bin.
const (
	Usual = 256
	Most  = 1 << 16
)

// Bins are a table whose numbers are replaced by the index of their interval: column j of row i is cells[j][i].
type Bins struct {
	rows  int
	cells [][]uint16
	cuts  [][]float64 // per column, ascending; bin k holds cuts[k-1] < v <= cuts[k]
	// The smallest and the largest value of each bin of a column.
	low, high [][]float64
}

// Bin sorts each column of cells, row by row, into at most limit bins: one per distinct value if that is enough,
// otherwise bins of about equal weight. A nil weight is 1 for each row.
func Bin(cells []float64, columns int, weight []float64, limit int) Bins {
	n := len(cells) / columns
	b := Bins{
		rows: n, cells: make([][]uint16, columns), cuts: make([][]float64, columns),
		low: make([][]float64, columns), high: make([][]float64, columns),
	}
	Parallel(columns, func() func(j int) {
		column := make([]float64, n)
		return func(j int) {
			for i := range n {
				column[i] = cells[i*columns+j]
			}
			values, mass := distinct(column, weight)
			ends := binEnds(values, mass, limit)
			b.cuts[j], b.low[j], b.high[j] = intervals(values, ends)
			b.cells[j] = make([]uint16, n)
			for i := range n {
				k, _ := slices.BinarySearch(b.cuts[j], cells[i*columns+j])
				b.cells[j][i] = uint16(k)
			}
		}
	})
	return b
}

// distinct sorts the column and returns its distinct values with the cumulative weight of the rows up to each.
func distinct(column, weight []float64) (values, mass []float64) {
	rows := slices.Clone(column)
	slices.Sort(column)
	for i, v := range column {
		if i == 0 || v > column[i-1] {
			values, mass = append(values, v), append(mass, 0)
		}
		mass[len(mass)-1] = float64(i + 1)
	}
	if weight == nil {
		return values, mass
	}
	clear(mass)
	for i, v := range rows {
		k, _ := slices.BinarySearch(values, v)
		mass[k] += weight[i]
	}
	for k := 1; k < len(mass); k++ {
		mass[k] += mass[k-1]
	}
	return values, mass
}

// binEnds returns the indices of the last values of fewer than limit bins, without the last bin.
func binEnds(values, mass []float64, limit int) []int {
	var ends []int
	last := len(values) - 1
	if last < limit {
		for k := range last {
			ends = append(ends, k)
		}
		return ends
	}
	// For each of the evenly spaced ranks, find the value that exceeds it.
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

// intervals returns the cuts after the ends of bins, and the bins' extremes.
func intervals(values []float64, ends []int) (cuts, low, high []float64) {
	cuts = make([]float64, 0, len(ends))
	low, high = append(low, values[0]), make([]float64, 0, len(ends)+1)
	for _, e := range ends {
		cuts = append(cuts, between(values[e], values[e+1]))
		low, high = append(low, values[e+1]), append(high, values[e])
	}
	return cuts, low, append(high, values[len(values)-1])
}

// between is a number that is at least low and below high.
func between(low, high float64) float64 {
	cut := low + (high-low)/2
	if !(cut < high) { // neighbouring floats
		cut = low
	}
	return cut
}

func (b Bins) ends(j int, rows []int32) (first, last int) {
	column := b.cells[j]
	if len(b.cuts[j]) == 0 {
		return 0, 0
	}
	low, high := column[rows[0]], column[rows[0]]
	for _, i := range rows {
		low, high = min(low, column[i]), max(high, column[i])
		if int(low) == 0 && int(high) == len(b.cuts[j]) {
			break
		}
	}
	return int(low), int(high)
}
