package nn

import (
	"math"
	"math/rand/v2"
	"testing"
)

func mixedHeads(t *testing.T) *Heads {
	t.Helper()
	h, err := NewHeads([]Head{{SigmoidHead, 0, 1}, {BernoulliHead, 1, 1}, {CategoricalHead, 2, 3}}, 5)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHeadsDrawWithTheirProbabilities fails falsely with a chance below 1e-6: a
// share over 20,000 draws is five standard deviations from its probability.
func TestHeadsDrawWithTheirProbabilities(t *testing.T) {
	h := mixedHeads(t)
	const n = 20000
	raw, x := make([]float32, 5*n), make([]float32, 5*n)
	for i := range n {
		copy(raw[5*i:], []float32{0.3, -1, 0, 1, 2})
	}
	h.Forward(x, raw, n, rand.New(rand.NewPCG(3, 4)))
	var share [5]float64
	for i := range n {
		sum := float32(0)
		for j := range 5 {
			share[j] += float64(x[5*i+j]) / n
			if j >= 2 {
				sum += x[5*i+j]
			}
		}
		if sum != 1 {
			t.Fatalf("row %d: categories %v are not one-hot", i, x[5*i+2:5*i+5])
		}
	}
	z := 1 + math.E + math.E*math.E
	want := [5]float64{float64(Sigmoid(0.3)), float64(Sigmoid(-1)), 1 / z, math.E / z, math.E * math.E / z}
	for j := range want {
		if math.Abs(share[j]-want[j]) > 5*0.5/math.Sqrt(n) {
			t.Errorf("output %d: share %v, probability %v", j, share[j], want[j])
		}
	}
}

// TestHeadsGradientIsThatOfTheExpectation gives Backward the loss of every
// choice and compares it with differences of the expected loss.
func TestHeadsGradientIsThatOfTheExpectation(t *testing.T) {
	h := mixedHeads(t)
	raw := []float32{0.2, 0.4, -0.3, 0.1, 0.5}
	losses := []float32{1, -2, 0.5, 3, -1}
	x := make([]float32, 5)
	expected := func() float64 {
		h.Forward(x, raw, 1, rand.New(rand.NewPCG(5, 6)))
		var v float64
		for j, p := range h.Mean() {
			v += float64(losses[j] * p)
		}
		return v
	}
	expected()
	grad := append([]float32(nil), losses...)
	h.Backward(grad, 1)
	for j := range raw {
		near(t, "head", float64(grad[j]), numeric(raw, j, expected))
	}
}

func TestNewHeadsRefusesGapsAndOverlaps(t *testing.T) {
	for name, heads := range map[string][]Head{
		"gap":     {{SigmoidHead, 1, 1}},
		"overlap": {{SigmoidHead, 0, 2}, {SigmoidHead, 1, 1}},
		"short":   {{SigmoidHead, 0, 1}},
		"empty":   {{SigmoidHead, 0, 0}},
	} {
		if _, err := NewHeads(heads, 2); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
