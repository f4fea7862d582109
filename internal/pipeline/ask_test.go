package pipeline

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestCountsThatDoNotFitAreRefused(t *testing.T) {
	sum := &conclavev1.Release{Teachers: 3,
		Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: []int64{1, 2}, Scale: 4}}}
	for name, r := range map[string]*conclavev1.Release{
		"nothing": {Teachers: 3},
		"votes": {Teachers: 3,
			Answer: &conclavev1.Release_Votes{Votes: &conclavev1.NoisyVotes{Labels: []int32{1, 1}}}},
		"too few classes": {Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: []int64{1}, Scale: 4}}},
		"no scale":        {Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: []int64{1, 2}}}},
	} {
		if _, err := countsOf(r, 2); err == nil {
			t.Errorf("counts: %s was accepted", name)
		}
	}
	if got, err := countsOf(sum, 2); err != nil || !cmp.Equal([]float64{0.25, 0.5}, got) {
		t.Errorf("counts %v (%v), want 0.25 and 0.5", got, err)
	}
}

func TestTensorsAreLittleEndianRows(t *testing.T) {
	got := Tensor([]float32{1, -2, 0.5, 0, 0, 0}, 3)
	if !cmp.Equal([]uint32{2, 3}, got.Shape) || len(got.Data) != 24 {
		t.Fatalf("shape %v, %d bytes", got.Shape, len(got.Data))
	}
	for i, want := range []float32{1, -2, 0.5} {
		b := got.Data[4*i:]
		if v := math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24); v != want {
			t.Errorf("value %d is %v, want %v", i, v, want)
		}
	}
}
