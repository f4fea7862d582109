package pategan

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/output"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The loss's gradient is that of the stated loss, also through the mean of each class, with an unanswered query
// and rounds of different weight.
func TestLossGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n, w = 8, 3
	reference := make([]float32, 20*w)
	for i := range reference {
		reference[i] = rng.Float32()
	}
	units, err := scaling.New(reference, make([]int, 20), w, 2, []int{0, 2})
	testkit.Must(t, err)
	o := DefaultOptions().Student
	o.Trust, o.Step = 1.5, 0.7
	d := newChange(units, 2, o)
	var rounds []*labelled
	for range 2 {
		r := &labelled{x: make([]float32, n*w), classes: []int{0, 1, 0, 1, 0, 1, 1, 1}, share: make([]float32, n),
			known: make([]float32, n), change: make([]float32, n), noise: 0.2}
		for i := range r.x {
			r.x[i] = rng.Float32()
		}
		for i := range n {
			r.share[i], r.known[i], r.change[i] = rng.Float32()*1.4-0.2, 1, rng.Float32()
		}
		r.known[2] = 0
		r.basis = toFloat64(units.All(r.x, r.classes))
		rounds = append(rounds, r)
	}
	for i := range d.weights {
		d.weights[i] = rng.NormFloat64()
	}
	// The second and third of three rounds.
	want := func(weights []float64) float64 {
		var sum float64
		for _, v := range weights {
			sum += v * v / (2 * 0.7 * 0.7)
		}
		m := units.Width()
		for k, r := range rounds {
			f := make([]float64, n)
			var mean, count [2]float64
			for i, c := range r.classes {
				f[i] = float64(r.change[i])
				for j := range m {
					f[i] += r.basis[i*m+j] * (weights[j] + weights[(1+c)*m+j])
				}
				if r.known[i] == 1 {
					mean[c] += f[i]
					count[c]++
				}
			}
			weight := math.Pow(float64(k+2)/3, 3) / (4 * 0.2 * 0.2)
			for i, c := range r.classes {
				if r.known[i] == 1 {
					v := 1.5 * (f[i] - mean[c]/count[c])
					sum += weight * (math.Log1p(math.Exp(v)) - float64(r.share[i])*v)
				}
			}
		}
		return sum
	}
	grad := make([]float64, len(d.weights))
	if got, want := d.loss(grad, d.weights, rounds, 3), want(d.weights); math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("loss is %v, want %v", got, want)
	}
	for k := range d.weights {
		const h = 1e-5
		was := d.weights[k]
		d.weights[k] = was + h
		up := want(d.weights)
		d.weights[k] = was - h
		down := want(d.weights)
		d.weights[k] = was
		if want := (up - down) / (2 * h); math.Abs(want-grad[k]) > 1e-4*(1+math.Abs(want)) {
			t.Errorf("weight %d: gradient %v, want %v", k, grad[k], want)
		}
	}
}

// A fit finds the log-ratio behind the shares, up to a constant, and better with less noise; under heavy noise
// it stays near zero.
func TestFitFindsTheRatio(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	const n, w = 64, 2
	x := make([]float32, n*w)
	classes := make([]int, n)
	for i := range x {
		x[i] = rng.Float32()
	}
	for i := range classes {
		classes[i] = i % 2
	}
	units, err := scaling.New(x, classes, w, 2, nil)
	testkit.Must(t, err)
	truth := []float64{0.5, 0, 0.3, -0.8, -0.3, 0.4}
	fit := func(noise float64, rounds int) float64 {
		o := DefaultOptions().Student
		o.Step = 1
		d := newChange(units, 2, o)
		copy(d.weights, truth)
		real := d.of(x, classes)
		clear(d.weights)
		var all []*labelled
		for range rounds {
			r := &labelled{x: x, classes: classes, share: make([]float32, n), known: make([]float32, n),
				change: make([]float32, n), noise: noise}
			for i, v := range real {
				r.share[i], r.known[i] = output.Sigmoid(v)+float32(noise*rng.NormFloat64()), 1
			}
			all = append(all, r)
		}
		testkit.Must(t, d.fit(all, rounds))
		var size, wrong float64
		for i, v := range d.of(x, classes) {
			wrong += math.Pow(float64(v-real[i]), 2)
			size += math.Pow(float64(real[i]), 2)
			if all[0].change[i] != v {
				t.Fatalf("the first round's change is %v, want %v", all[0].change[i], v)
			}
		}
		return math.Sqrt(wrong / size)
	}
	if got := fit(0.03, 10); got > 0.05 {
		t.Errorf("off by %.3f of the ratio under little noise, want at most 0.05", got)
	}
	if got := fit(100, 1); got < 0.9 || got > 1.1 {
		t.Errorf("off by %.3f of the ratio under boundless noise, want about all of it", got)
	}
}
