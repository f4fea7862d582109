package nn_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const leak = 0.2

// waves is a fixed function of a network's outputs, with its gradient.
func waves(out []float32) (value float64, grad []float32) {
	grad = make([]float32, len(out))
	for i, v := range out {
		value += math.Sin(float64(v)+float64(i)) / float64(len(out))
		grad[i] = float32(math.Cos(float64(v)+float64(i)) / float64(len(out)))
	}
	return value, grad
}

func TestBackwardWithoutParamsLeavesTheirGradients(t *testing.T) {
	m, err := nn.NewNetwork(rand.New(rand.NewPCG(1, 2)), nn.Vector(3), nn.Dense{Out: 4}, nn.LeakyReLU(leak),
		nn.Dense{Out: 1})
	testkit.Must(t, err)
	_, grad := waves(m.Forward([]float32{1, 2, 3}, 1))
	m.Backward(grad, false, true)
	for _, p := range m.Params() {
		for _, g := range p.Grad {
			if g != 0 {
				t.Fatalf("%s has gradient %v", p.Name, g)
			}
		}
	}
}

// Until the decay is reached, step t keeps (1+t)/(10+t) of the average.
func TestAverageBeginsWithAShortMemory(t *testing.T) {
	m, err := nn.NewNetwork(rand.New(rand.NewPCG(1, 2)), nn.Vector(1), nn.Dense{Out: 1})
	testkit.Must(t, err)
	w := m.Params()[0].Value
	w[0] = 1
	a := nn.NewAverage(m, 0.3)
	w[0] = 0
	want := 1.0
	for step := 1; step <= 5; step++ {
		a.Update(m)
		want *= min(0.3, float64(1+step)/float64(10+step))
		if got := float64(a.Model().Params()[0].Value[0]); math.Abs(got-want) > 1e-6*want || a.Steps() != step {
			t.Errorf("average is %v after %d steps, want %v after %d", got, a.Steps(), want, step)
		}
	}
}

func TestAverageForgetsTheStartAndFollows(t *testing.T) {
	m, err := nn.NewNetwork(rand.New(rand.NewPCG(1, 2)), nn.Vector(1), nn.Dense{Out: 1})
	testkit.Must(t, err)
	w := m.Params()[0].Value
	w[0] = 100
	a := nn.NewAverage(m, 0.9)
	w[0] = 1
	for range 200 {
		a.Update(m)
	}
	if got := a.Model().Params()[0].Value[0]; math.Abs(float64(got)-1) > 1e-3 {
		t.Errorf("average is %v, want 1", got)
	}
	if m.Params()[0].Value[0] != 1 {
		t.Error("the average changed the model")
	}
}
