package classify

import "slices"

// bins is a table whose numbers were replaced by the index of the interval
// they fall in: column j of row i is cells[j][i].
type bins struct {
	rows  int
	cells [][]uint8
	cuts  [][]float64 // per column, ascending; bin k holds cuts[k-1] < v <= cuts[k]
}

// binned sorts each column into at most limit bins: one per distinct value
// where that is enough, otherwise bins of about equally many rows.
func binned(x Matrix, limit int) bins {
	b := bins{rows: x.Rows, cells: make([][]uint8, x.Cols), cuts: make([][]float64, x.Cols)}
	sorted := make([]float64, x.Rows)
	for j := range x.Cols {
		for i := range x.Rows {
			sorted[i] = x.Data[i*x.Cols+j]
		}
		slices.Sort(sorted)
		b.cuts[j] = cutPoints(sorted, limit)
		b.cells[j] = make([]uint8, x.Rows)
		for i := range x.Rows {
			k, _ := slices.BinarySearch(b.cuts[j], x.Data[i*x.Cols+j])
			b.cells[j][i] = uint8(k)
		}
	}
	return b
}

// cutPoints gives fewer than limit cuts between the sorted values.
func cutPoints(sorted []float64, limit int) []float64 {
	var ends []int // index of the last row of each distinct value but the largest
	for i := 0; i+1 < len(sorted); i++ {
		if sorted[i] < sorted[i+1] {
			ends = append(ends, i)
		}
	}
	if len(ends) >= limit {
		// Keep, for each of the evenly spaced ranks, the distinct value that
		// reaches it.
		var kept []int
		for k := 1; k < limit; k++ {
			rank := k * len(sorted) / limit
			at, _ := slices.BinarySearch(ends, rank)
			if at < len(ends) && (len(kept) == 0 || ends[at] > kept[len(kept)-1]) {
				kept = append(kept, ends[at])
			}
		}
		ends = kept
	}
	cuts := make([]float64, 0, len(ends))
	for _, e := range ends {
		low, high := sorted[e], sorted[e+1]
		cut := low + (high-low)/2
		if !(cut < high) { // neighbouring floats
			cut = low
		}
		cuts = append(cuts, cut)
	}
	return cuts
}
