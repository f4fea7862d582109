package nn

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// blockRows is how many records a trainer takes at once: enough to use the
// vector kernels of BLAS, few enough to stay in the cache.
const blockRows = 64

// trainer is one worker's scratch memory for ensemble steps.
type trainer struct {
	spec EnsembleSpec
	grad []float32
	// act and dact hold a block's hidden activations and their gradients, out
	// its scores and then their gradients.
	act, dact, out []float32
}

func newTrainer(spec EnsembleSpec, size int) *trainer {
	return &trainer{
		spec: spec, grad: make([]float32, size), out: make([]float32, blockRows),
		act: make([]float32, blockRows*spec.Hidden), dact: make([]float32, blockRows*spec.Hidden),
	}
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
	w, m, v = w[:len(t.grad)], m[:len(t.grad)], v[:len(t.grad)]
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
	for take > 0 {
		k := min(take, n-at, blockRows)
		x, d := rows[at*f:(at+k)*f], t.out[:k]
		t.scores(d, w, x)
		for i, s := range d {
			d[i] = scale * fastSigmoid(sign*s)
		}
		t.backward(w, x, d)
		take -= k
		if at += k; at == n {
			at = 0
		}
	}
}

// score evaluates one network on one record.
func (t *trainer) score(w, x []float32) float32 {
	t.scores(t.out[:1], w, x)
	return t.out[0]
}

// scores evaluates one network on up to blockRows records and keeps the hidden
// activations for backward.
func (t *trainer) scores(out, w, x []float32) {
	f, h, n := t.spec.Features, t.spec.Hidden, len(out)
	if h == 0 {
		for i := range out {
			out[i] = w[f]
		}
		gemv(blas.NoTrans, x, n, f, w[:f], out)
		return
	}
	biases, outs := w[h*f:h*f+h], w[h*f+h:]
	act := t.act[:n*h]
	for i := range n {
		copy(act[i*h:], biases)
		out[i] = outs[h]
	}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, general(x, n, f), general(w, h, f), 1, general(act, n, h))
	for i, a := range act {
		if a < 0 {
			act[i] = leak * a
		}
	}
	gemv(blas.NoTrans, act, n, h, outs[:h], out)
}

// backward adds to t.grad the gradient of the sum of d times the last scores.
func (t *trainer) backward(w, x, d []float32) {
	f, h, n := t.spec.Features, t.spec.Hidden, len(d)
	g := t.grad
	var sum float32
	for _, v := range d {
		sum += v
	}
	if h == 0 {
		g[f] += sum
		gemv(blas.Trans, x, n, f, d, g[:f])
		return
	}
	outs, gb, gout := w[h*f+h:], g[h*f:h*f+h], g[h*f+h:]
	act, dact := t.act[:n*h], t.dact[:n*h]
	gout[h] += sum
	gemv(blas.Trans, act, n, h, d, gout[:h])
	for i, v := range d {
		for k, a := range act[i*h : (i+1)*h] {
			da := v * outs[k]
			if a < 0 {
				da *= leak
			}
			dact[i*h+k] = da
			gb[k] += da
		}
	}
	blas32.Gemm(blas.Trans, blas.NoTrans, 1, general(dact, n, h), general(x, n, f), 1, general(g, h, f))
}

func general(data []float32, rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: data}
}

// gemv adds the product of a, shape [rows, cols], or of its transpose, with x
// to y.
func gemv(trans blas.Transpose, a []float32, rows, cols int, x, y []float32) {
	blas32.Implementation().Sgemv(trans, rows, cols, 1, a, cols, x, 1, 1, y, 1)
}

// fastSigmoid is 1/(1+exp(-x)) within a few units of the last place of float32.
// Steps need no more, and it takes a fifth of the time of Sigmoid.
func fastSigmoid(x float32) float32 {
	const (
		log2e = 1.44269504
		// ln2 in two parts, the first of which has few bits.
		ln2hi, ln2lo = 0.693359375, -2.12194440e-4
	)
	// exp(-|x|) = 2^k exp(r) with |r| <= ln2/2; below 2^-126 it is 0 to float32.
	a := -min(max(x, -x), 87)
	k := int32(a*log2e - 0.5)
	r := a - float32(k)*ln2hi - float32(k)*ln2lo
	// The polynomial of Cephes' expf.
	p := float32(1.9875691500e-4)
	p = p*r + 1.3981999507e-3
	p = p*r + 8.3334519073e-3
	p = p*r + 4.1665795894e-2
	p = p*r + 1.6666665459e-1
	p = p*r + 5.0000001201e-1
	e := (p*r*r + r + 1) * math.Float32frombits(uint32(k+127)<<23)
	if x >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}
