package main

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// loop takes the steps of all teachers one by one: products by gonum, the rest in plain Go, one Adam step each.
type loop struct {
	d              *training
	size           int
	w, m, v, grad  []float32
	act, back, out []float32
	count          int
}

const (
	leak  = 0.2
	beta1 = 0.9
	beta2 = 0.99
)

func newLoop(d *training, weights []float32) *loop {
	n := len(weights)
	return &loop{
		d: d, size: n / teachers, w: append([]float32(nil), weights...), m: make([]float32, n), v: make([]float32, n),
		grad: make([]float32, n/teachers), act: make([]float32, batch*hidden), back: make([]float32, batch*hidden),
		out: make([]float32, batch),
	}
}

func (l *loop) step() error {
	l.count++
	c1, c2 := 1-math.Pow(beta1, float64(l.count)), 1-math.Pow(beta2, float64(l.count))
	for t := range teachers {
		w := l.w[t*l.size : (t+1)*l.size]
		clear(l.grad)
		l.accumulate(w, l.d.real[t].ByClass[0], -1)
		l.accumulate(w, l.d.generated, 1)
		m, v := l.m[t*l.size:(t+1)*l.size], l.v[t*l.size:(t+1)*l.size]
		for i, g := range l.grad {
			m[i] = beta1*m[i] + (1-beta1)*g
			v[i] = beta2*v[i] + (1-beta2)*g*g
			w[i] -= float32(rate * float64(m[i]) / c1 / (math.Sqrt(float64(v[i])/c2) + 1e-8))
		}
	}
	return nil
}

// accumulate adds the gradient of 1/2 mean softplus(sign*score) over the batch x.
func (l *loop) accumulate(w, x []float32, sign float32) {
	const first = features * hidden
	weights, biases, outs := of(w[:first], features, hidden), w[first:first+hidden], w[first+hidden:]
	for i := range batch {
		copy(l.act[i*hidden:], biases)
	}
	act, in := of(l.act, batch, hidden), of(x, batch, features)
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, in, weights, 1, act)
	for i, a := range l.act {
		if a < 0 {
			l.act[i] = leak * a
		}
	}
	vector := blas32.Vector{N: hidden, Inc: 1, Data: outs[:hidden]}
	d := blas32.Vector{N: batch, Inc: 1, Data: l.out}
	for i := range l.out {
		l.out[i] = outs[hidden]
	}
	blas32.Gemv(blas.NoTrans, 1, act, vector, 1, d)
	g := l.grad
	for i, s := range l.out {
		l.out[i] = 0.5 * sign / batch / float32(1+math.Exp(float64(-sign*s)))
		g[first+2*hidden] += l.out[i]
	}
	blas32.Gemv(blas.Trans, 1, act, d, 1, blas32.Vector{N: hidden, Inc: 1, Data: g[first+hidden : first+2*hidden]})
	for i, e := range l.out {
		for j := range hidden {
			b := e * outs[j]
			if l.act[i*hidden+j] < 0 {
				b *= leak
			}
			l.back[i*hidden+j] = b
			g[first+j] += b
		}
	}
	blas32.Gemm(blas.Trans, blas.NoTrans, 1, in, of(l.back, batch, hidden), 1, of(g[:first], features, hidden))
}

func of(x []float32, rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
}
