package trees

// Tree is a regression tree. Node 0 is the root; a leaf has Left 0.
type Tree []Node

// Node is a leaf, or sends the rows whose Column is at most Cut to Left.
type Node struct {
	Column      int
	Cut         float64
	Left, Right int
	Leaf        float64 // the value of a leaf
}

// Value is the value of the leaf that a row reaches.
func (t Tree) Value(row []float64) float64 {
	k := 0
	for t[k].Left != 0 {
		if row[t[k].Column] <= t[k].Cut {
			k = t[k].Left
		} else {
			k = t[k].Right
		}
	}
	return t[k].Leaf
}

// Sum adds the values of trees to start, for each row of cells, which has this many columns.
func Sum(start float64, all []Tree, cells []float64, columns int) []float64 {
	const piece = 1024
	values := make([]float64, len(cells)/columns)
	Parallel((len(values)+piece-1)/piece, func() func(int) {
		return func(k int) {
			for i := k * piece; i < min((k+1)*piece, len(values)); i++ {
				row, sum := cells[i*columns:(i+1)*columns], start
				for _, t := range all {
					sum += t.Value(row)
				}
				values[i] = sum
			}
		}
	})
	return values
}
