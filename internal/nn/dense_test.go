package nn

import (
	"math"
	"math/rand/v2"
	"testing"
)

// loss is a fixed function of a network's outputs, with its gradient.
func loss(out []float32) (value float64, grad []float32) {
	grad = make([]float32, len(out))
	for i, v := range out {
		value += math.Sin(float64(v)+float64(i)) / float64(len(out))
		grad[i] = float32(math.Cos(float64(v)+float64(i)) / float64(len(out)))
	}
	return value, grad
}

// numeric returns the central difference of f at x[i].
func numeric(x []float32, i int, f func() float64) float64 {
	const h = 1e-2
	was := x[i]
	x[i] = was + h
	up := f()
	x[i] = was - h
	down := f()
	x[i] = was
	return (up - down) / (2 * h)
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 2e-3*(1+math.Abs(want)) {
		t.Errorf("%s: gradient %v, central difference %v", what, got, want)
	}
}

func TestBackwardWithoutParamsLeavesTheirGradients(t *testing.T) {
	m, err := NewNetwork(rand.New(rand.NewPCG(1, 2)), Vector(3), Dense{Out: 4}, LeakyReLU(leak), Dense{Out: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, grad := loss(m.Forward([]float32{1, 2, 3}, 1))
	m.Backward(grad, false, true)
	for _, p := range m.Params() {
		for _, g := range p.Grad {
			if g != 0 {
				t.Fatalf("%s has gradient %v", p.Name, g)
			}
		}
	}
}

func TestAdamFindsAMinimum(t *testing.T) {
	p := Param{Name: "x", Shape: []int{2}, Value: []float32{3, -2}, Grad: make([]float32, 2)}
	a := NewAdam([]Param{p}, 0.05)
	for range 500 {
		p.Grad[0], p.Grad[1] = 2*(p.Value[0]-1), 20*(p.Value[1]+1)
		a.Step()
	}
	if math.Abs(float64(p.Value[0]-1)) > 0.02 || math.Abs(float64(p.Value[1]+1)) > 0.02 {
		t.Errorf("ended at %v, want [1 -1]", p.Value)
	}
	if p.Grad[0] != 0 || a.Steps() != 500 {
		t.Errorf("gradient %v after %d steps", p.Grad, a.Steps())
	}
}

// TestAdamFirstStep checks the bias correction: whatever the gradient's size,
// the first step is the learning rate.
func TestAdamFirstStep(t *testing.T) {
	for _, g := range []float32{1e-3, 1, 1e4} {
		p := Param{Value: []float32{0}, Grad: []float32{g}}
		NewAdam([]Param{p}, 0.1).Step()
		if math.Abs(float64(p.Value[0])+0.1) > 1e-4 {
			t.Errorf("gradient %v: first step to %v, want -0.1", g, p.Value[0])
		}
	}
}

// Until the decay is reached, step t keeps (1+t)/(10+t) of the average.
func TestAverageBeginsWithAShortMemory(t *testing.T) {
	m, err := NewNetwork(rand.New(rand.NewPCG(1, 2)), Vector(1), Dense{Out: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := m.Params()[0].Value
	w[0] = 1
	a := NewAverage(m, 0.3)
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
	m, err := NewNetwork(rand.New(rand.NewPCG(1, 2)), Vector(1), Dense{Out: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := m.Params()[0].Value
	w[0] = 100
	a := NewAverage(m, 0.9)
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
