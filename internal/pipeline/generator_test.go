package pipeline

import (
	"math/rand/v2"
	"testing"
)

// Generated records are what an encoder makes: numbers in [0, 1], one category
// each, and an empty cell's number at its fixed place.
func TestGeneratedRecordsAreEncodedRecords(t *testing.T) {
	g := testModel(t, 0.5, 0.5).Generator
	const n = 2000
	x := sampled(g, n, 1)
	empty := 0
	for i := range n {
		r := x[i*g.Width() : (i+1)*g.Width()]
		for j, v := range r {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("record %d, feature %d is %v", i, j, v)
			}
		}
		if r[1] == 1 {
			empty++
			if r[0] != EmptyNumber {
				t.Fatalf("record %d is empty with number %v", i, r[0])
			}
		}
		if r[2]+r[3]+r[4] != 1 {
			t.Fatalf("record %d has categories %v", i, r[2:])
		}
	}
	if empty == 0 || empty == n {
		t.Errorf("%d of %d cells are empty", empty, n)
	}
}

// The gradient of a number that an empty cell hides is zero.
func TestEmptyCellsHideTheirNumber(t *testing.T) {
	g := testModel(t, 0.5, 0.5).Generator
	x := make([]float32, 64*g.Width())
	g.Sample(x, make([]int, 64), rand.New(rand.NewPCG(1, 2)))
	grad := make([]float32, len(x))
	for i := range 64 {
		grad[i*g.Width()] = 1
	}
	g.Backward(grad, x)
	for i := range 64 {
		if at := i * g.Width(); (x[at+1] == 1) != (grad[at] == 0) {
			t.Fatalf("record %d: empty %v, gradient %v", i, x[at+1], grad[at])
		}
	}
	for _, p := range g.Net.Params() {
		for _, v := range p.Grad {
			if v != 0 {
				return
			}
		}
	}
	t.Error("no gradient reached the network")
}
