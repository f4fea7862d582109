package nn

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
)

// stand is a network that takes the place of one model of an ensemble after the
// other, with a worker's memory.
type stand struct {
	net *Network
	// grad holds the gradients of all of the network's parameters.
	grad   []float32
	values []*[]float32
	scores []float32
	rows   []float32 // a window that goes round the end
	dx     []float32
	// own, m and v are the parameters and moments of a fresh model.
	own, m, v []float32
	pcg       rand.PCG
	rng       *rand.Rand
}

func newStand(net *Network) *stand {
	s := &stand{net: net}
	for _, p := range net.slots() {
		s.values = append(s.values, p.value)
		s.grad = append(s.grad, *p.grad...)
	}
	at := 0
	for _, p := range net.slots() {
		n := len(*p.grad)
		*p.grad = s.grad[at : at+n : at+n]
		at += n
	}
	clear(s.grad)
	net.params = nil // which would be those of no model
	net.SetWorkers(1)
	s.rng = rand.New(&s.pcg)
	return s
}

// take gives the network a model's parameters, which it reads and writes where
// they are.
func (s *stand) take(params []float32) {
	for _, v := range s.values {
		n := len(*v)
		*v, params = params[:n:n], params[n:]
	}
}

// begin makes the network a fresh model with these parameters.
func (s *stand) begin(params []float32) {
	n := len(params)
	s.own, s.m, s.v = resize(s.own, n), resize(s.m, n), resize(s.v, n)
	copy(s.own, params)
	clear(s.m)
	clear(s.v)
	s.take(s.own)
}

// accumulate adds to the gradients half of those of the loss over up to batch of
// the rows.
func (s *stand) accumulate(rows []float32, batch int, loss Loss, real bool) {
	n := len(rows) / s.net.In()
	if n > batch {
		rows, n = s.window(rows, n, batch), batch
	}
	scores := s.net.Forward(rows, n)
	s.scores = resize(s.scores, n)
	loss.gradient(s.scores, scores, real)
	vector.Scale(s.scores, 0.5)
	s.net.Backward(s.scores, true, false)
}

// window returns batch of n rows in a row from a random one on, after the last
// the first. Rows come in no particular order, and so it costs one draw.
func (s *stand) window(rows []float32, n, batch int) []float32 {
	in, at := s.net.In(), s.rng.IntN(n)
	if at+batch <= n {
		return rows[at*in : (at+batch)*in]
	}
	s.rows = append(append(s.rows[:0], rows[at*in:]...), rows[:(at+batch-n)*in]...)
	return s.rows
}
