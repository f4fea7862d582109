package nn

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/nn/kernel"
)

// blockRows is how many records a trainer takes at once: enough for the kernels
// to be fast, few enough to stay in the cache.
const blockRows = 64

// leak is the slope of the teachers' rectifiers below zero.
const leak = 0.2

// trainer is one worker's scratch memory for ensemble steps.
type trainer struct {
	spec EnsembleSpec
	grad []float32
	// act holds a block's hidden activations and then the gradients before their
	// rectifiers, out its scores and then their gradients.
	act, out []float32
	ones     []float32
	pcg      rand.PCG
	rng      *rand.Rand
}

func newTrainer(spec EnsembleSpec) *trainer {
	t := &trainer{
		spec: spec, grad: make([]float32, spec.Size()), out: make([]float32, blockRows),
		act: make([]float32, blockRows*spec.Hidden), ones: make([]float32, blockRows),
	}
	for i := range t.ones {
		t.ones[i] = 1
	}
	t.rng = rand.New(&t.pcg)
	return t
}

// step takes one Adam step of one model and class on the logistic loss
// 1/2 mean softplus(-score(real)) + 1/2 mean softplus(score(generated)).
func (t *trainer) step(w, m, v []float32, count int, real, generated []float32, batch int) {
	clear(t.grad)
	t.accumulate(w, real, batch, -1)
	t.accumulate(w, generated, batch, 1)
	kernel.Adam(w, m, v, t.grad, kernel.AdamStep{
		Rate: t.spec.Rate, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, Decay: t.spec.Decay,
	}.At(count))
}

// accumulate adds the gradient of 1/2 mean softplus(sign*score) over up to
// batch of the rows.
func (t *trainer) accumulate(w, rows []float32, batch int, sign float32) {
	f := t.spec.Features
	n := len(rows) / f
	take, at := n, 0
	if n > batch {
		// A random window of a random order costs one draw; rows come in no
		// particular order.
		take, at = batch, t.rng.IntN(n)
	}
	scale := 0.5 * sign / float32(take)
	for take > 0 {
		k := min(take, n-at, blockRows)
		x, d := rows[at*f:(at+k)*f], t.out[:k]
		t.scores(d, w, x)
		kernel.Scale(d, sign)
		kernel.Sigmoid(d, d)
		kernel.Scale(d, scale)
		t.backward(w, x, d)
		take -= k
		if at += k; at == n {
			at = 0
		}
	}
}

// scores evaluates one network on up to blockRows records and keeps the hidden
// activations for backward.
func (t *trainer) scores(out, w, x []float32) {
	f, h, n := t.spec.Features, t.spec.Hidden, len(out)
	if h == 0 {
		kernel.RowDots(out, x, w[:f], w[f])
		return
	}
	biases, outs := w[f*h:(f+1)*h], w[(f+1)*h:]
	act := t.act[:n*h]
	kernel.Gemm(kernel.Of(act, n, h), kernel.Of(x, n, f), kernel.Of(w[:f*h], f, h), kernel.Epilogue{Bias: biases, Leak: leak})
	kernel.RowDots(out, act, outs[:h], outs[h])
}

// backward adds to t.grad the gradient of the sum of d times the last scores.
// It uses up the activations.
func (t *trainer) backward(w, x, d []float32) {
	f, h, n := t.spec.Features, t.spec.Hidden, len(d)
	g := t.grad
	g[len(g)-1] += kernel.Dot(d, t.ones[:n])
	if h == 0 {
		kernel.AddWeightedRows(g[:f], x, d)
		return
	}
	act := t.act[:n*h]
	kernel.UnitGrad(act, act, d, w[(f+1)*h:(f+2)*h], g[(f+1)*h:(f+2)*h], g[f*h:(f+1)*h], leak)
	kernel.Gemm(kernel.Of(g[:f*h], f, h), kernel.Of(x, n, f).T(), kernel.Of(act, n, h), kernel.Epilogue{Add: true})
}
