package trees

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBins(t *testing.T) {
	if got, want := Bin([]float64{4, 1, 2, 1}, 1, nil, 255), []float64{1.5, 3}; !slices.Equal(got.cuts[0], want) {
		t.Errorf("cuts %v, want %v", got.cuts[0], want)
	}
	if got := Bin([]float64{3, 3, 3}, 1, nil, 255); len(got.cuts[0]) != 0 {
		t.Errorf("a constant column got cuts %v", got.cuts[0])
	}
	close := []float64{1, math.Nextafter(1, 2)}
	if got := Bin(close, 1, nil, 255).cuts[0]; len(got) != 1 || !(got[0] < close[1]) || got[0] < close[0] {
		t.Errorf("neighbouring floats got cuts %v", got)
	}
	many := make([]float64, 10000)
	for i := range many {
		many[i] = float64(i)
	}
	b := Bin(many, 1, nil, 256)
	counts := make([]int, len(b.cuts[0])+1)
	for i, c := range b.cells[0] {
		counts[c]++
		if v := many[i]; v < b.low[0][c] || v > b.high[0][c] {
			t.Fatalf("%v lies in the bin from %v to %v", v, b.low[0][c], b.high[0][c])
		}
	}
	if len(counts) != 256 || slices.Min(counts) < 35 || slices.Max(counts) > 45 {
		t.Errorf("%d bins of %d to %d rows, want 256 of about 39", len(counts), slices.Min(counts), slices.Max(counts))
	}
}

// Training adds leaf values to rows by bin, scoring by threshold: both must
// reach the same leaf.
func TestTreeScoresAsItWasGrown(t *testing.T) {
	const rows, columns = 600, 3
	rng := rand.New(rand.NewPCG(5, 5))
	cells, weight := make([]float64, rows*columns), slices.Repeat([]float64{1}, rows)
	for i := range cells {
		cells[i] = rng.NormFloat64()
	}
	options := LeafWiseOptions{Leaves: 12, MinRows: 20, LearningRate: 0.1, L2: 1}
	g := NewLeafWise(Bin(cells, columns, nil, 16), weight, options)
	for i := range rows {
		g.Slope[i], g.Curve[i] = 0.5, 0.25
		if row := cells[i*columns:]; row[0]*row[1]+row[2]+rng.NormFloat64() > 0 {
			g.Slope[i] = -0.5
		}
	}
	grown := make([]float64, rows)
	tr := g.Grow(grown)
	leaves := 0
	for _, n := range tr {
		if n.Left == 0 {
			leaves++
		}
	}
	if leaves < 4 || leaves > 12 {
		t.Errorf("%d leaves, want at most 12 and more than 3", leaves)
	}
	for i := range rows {
		if got := tr.Value(cells[i*columns : (i+1)*columns]); got != grown[i] {
			t.Fatalf("row %d: scored %v, grown %v", i, got, grown[i])
		}
	}
}
