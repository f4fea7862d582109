package run

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func votes(teachers uint32, labels []int32, histogram ...int64) *conclavev1.Release {
	return &conclavev1.Release{Round: 3, Teachers: teachers, EpsilonSpent: 0.5, Answer: &conclavev1.Release_Votes{
		Votes: &conclavev1.NoisyVotes{Classes: 2, Labels: labels, Histogram: histogram},
	}}
}

func TestSharesOfNoisyHistograms(t *testing.T) {
	// fake, real of: all real, all fake, a draw, three of four real, not
	// answered, and a noisy histogram that leaves [0, 1].
	got, err := votesOf(votes(40, []int32{1, 0, 0, 1, -1, 1}, 0, 40, 40, 0, 20, 20, 10, 30, 0, 0, -10, 60), 6)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{1, 0, 0.5, 0.75, 0, 1.375}, got.Share); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]bool{true, true, true, true, false, true}, got.Answered); diff != "" {
		t.Error(diff)
	}
	if got.EpsilonSpent != 0.5 {
		t.Errorf("epsilon spent %v, want 0.5", got.EpsilonSpent)
	}
	// Noise that adds the same to both counts changes nothing.
	for _, shift := range []int64{-7, 1000} {
		if got, err := votesOf(votes(40, []int32{1}, 10+shift, 30+shift), 1); err != nil || got.Share[0] != 0.75 {
			t.Errorf("shift %d: share %v (%v), want 0.75", shift, got, err)
		}
	}
}

func TestSharesOfWinners(t *testing.T) {
	got, err := votesOf(votes(40, []int32{1, -1, 0}), 3)
	if err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal([]float32{1, 0, 0}, got.Share) || !cmp.Equal([]bool{true, false, true}, got.Answered) {
		t.Errorf("shares %v, answered %v", got.Share, got.Answered)
	}
}

func TestReleasesThatDoNotFitAreRefused(t *testing.T) {
	sum := &conclavev1.Release{Teachers: 3, Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: []int64{1, 2}, Scale: 4}}}
	for name, r := range map[string]*conclavev1.Release{
		"nothing":             {Teachers: 3},
		"a sum":               sum,
		"too few labels":      votes(3, []int32{1}),
		"too many labels":     votes(3, []int32{1, 1, 1}),
		"half a histogram":    votes(3, []int32{1, 1}, 1, 2),
		"no teachers":         votes(0, []int32{1, 1}),
		"an unknown class":    votes(3, []int32{1, 2}),
		"no release whatever": nil,
	} {
		if _, err := votesOf(r, 2); err == nil {
			t.Errorf("votes: %s was accepted", name)
		}
	}
	for name, r := range map[string]*conclavev1.Release{
		"nothing":         {Teachers: 3},
		"votes":           votes(3, []int32{1, 1}),
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
	got := tensor([]float32{1, -2, 0.5, 0, 0, 0}, 3)
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
