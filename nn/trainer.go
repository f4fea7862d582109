package nn

import (
	"math"
	"math/rand/v2"
)

// trainer is one worker's scratch memory for ensemble steps.
type trainer struct {
	spec EnsembleSpec
	grad []float32
	act  []float32
}

func newTrainer(spec EnsembleSpec, size int) *trainer {
	return &trainer{spec: spec, grad: make([]float32, size), act: make([]float32, spec.Hidden)}
}

// step takes one Adam step of one model and class on the logistic loss
// 1/2 mean softplus(-score(real)) + 1/2 mean softplus(score(generated)).
func (t *trainer) step(w, m, v []float32, count int, real, generated []float32, batch int, rng *rand.Rand) {
	clear(t.grad)
	t.accumulate(w, real, batch, -1, rng)
	t.accumulate(w, generated, batch, 1, rng)

	const beta1, beta2, eps = 0.9, 0.99, 1e-8
	c1 := 1 - math.Pow(beta1, float64(count))
	root := float32(1 / math.Sqrt(1-math.Pow(beta2, float64(count))))
	rate := float32(t.spec.Rate / c1)
	keep := float32(1 - t.spec.Rate*t.spec.Decay)
	for j, g := range t.grad {
		m[j] = beta1*m[j] + (1-beta1)*g
		v[j] = beta2*v[j] + (1-beta2)*g*g
		w[j] = keep*w[j] - rate*m[j]/(sqrt32(v[j])*root+eps)
	}
}

// accumulate adds the gradient of 1/2 mean softplus(sign*score) over up to
// batch of the rows.
func (t *trainer) accumulate(w, rows []float32, batch int, sign float32, rng *rand.Rand) {
	f := t.spec.Features
	n := len(rows) / f
	take, at := n, 0
	if n > batch {
		// A random window of a random order costs one draw; rows come in no
		// particular order.
		take, at = batch, rng.IntN(n)
	}
	scale := 0.5 * sign / float32(take)
	for range take {
		x := rows[at*f : (at+1)*f]
		s := t.score(w, x)
		t.backward(w, x, scale*Sigmoid(sign*s))
		if at++; at == n {
			at = 0
		}
	}
}

// score evaluates one network on one record and keeps the hidden activations.
func (t *trainer) score(w, x []float32) float32 {
	f, h := t.spec.Features, t.spec.Hidden
	if h == 0 {
		return dot(w[:f], x) + w[f]
	}
	biases, outs := w[h*f:h*f+h], w[h*f+h:]
	s := outs[h]
	for k := range h {
		a := dot(w[k*f:(k+1)*f], x) + biases[k]
		if a < 0 {
			a *= leak
		}
		t.act[k] = a
		s += outs[k] * a
	}
	return s
}

// backward adds d times the gradient of the last score to t.grad.
func (t *trainer) backward(w, x []float32, d float32) {
	f, h := t.spec.Features, t.spec.Hidden
	g := t.grad
	if h == 0 {
		axpy(g[:f], d, x)
		g[f] += d
		return
	}
	outs, gb, gout := w[h*f+h:], g[h*f:h*f+h], g[h*f+h:]
	gout[h] += d
	for k, a := range t.act {
		gout[k] += d * a
		da := d * outs[k]
		if a < 0 {
			da *= leak
		}
		gb[k] += da
		axpy(g[k*f:(k+1)*f], da, x)
	}
}

func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

func axpy(y []float32, a float32, x []float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += a * x[i]
	}
}
