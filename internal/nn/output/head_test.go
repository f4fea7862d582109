package output

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func mixedHeads(t *testing.T) *Heads {
	t.Helper()
	h, err := NewHeads([]Head{{SigmoidHead, 0, 1}, {BernoulliHead, 1, 1}, {CategoricalHead, 2, 3}}, 5)
	testkit.Must(t, err)
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
		nntest.Near(t, "head", float64(grad[j]), nntest.Difference32(raw, j, expected))
	}
}

// A head of many numbers gives what as many heads do but for the last bits, and
// single heads what they always gave to the bit.
func TestWideSigmoidHeadIsManySingleOnes(t *testing.T) {
	const width, n = 37, 3
	rng := rand.New(rand.NewPCG(7, 8))
	heads := []Head{{SigmoidHead, 0, width}, {BernoulliHead, width, 1}}
	wide, err := NewHeads(heads, width+1)
	testkit.Must(t, err)
	heads = heads[1:]
	for j := width - 1; j >= 0; j-- {
		heads = append([]Head{{SigmoidHead, j, 1}}, heads...)
	}
	single, err := NewHeads(heads, width+1)
	testkit.Must(t, err)
	raw := make([]float32, n*(width+1))
	for i := range raw {
		raw[i] = float32(20 * rng.NormFloat64())
	}
	x, want := make([]float32, len(raw)), make([]float32, len(raw))
	grad, wantGrad := make([]float32, len(raw)), make([]float32, len(raw))
	for i := range grad {
		grad[i] = float32(rng.NormFloat64())
		wantGrad[i] = grad[i]
	}
	wide.Forward(x, raw, n, rand.New(rand.NewPCG(1, 1)))
	single.Forward(want, raw, n, rand.New(rand.NewPCG(1, 1)))
	wide.Backward(grad, n)
	single.Backward(wantGrad, n)
	for i := range x {
		if math.Abs(float64(x[i]-want[i])) > 1e-6 || math.Abs(float64(grad[i]-wantGrad[i])) > 1e-6 ||
			wide.Mean()[i] != x[i] && i%(width+1) < width {
			t.Errorf("output %d of %v is %v with gradient %v, single heads give %v and %v",
				i, raw[i], x[i], grad[i], want[i], wantGrad[i])
		}
		if i%(width+1) < width && want[i] != Sigmoid(raw[i]) {
			t.Errorf("a single head gives %v for %v, want %v", want[i], raw[i], Sigmoid(raw[i]))
		}
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
