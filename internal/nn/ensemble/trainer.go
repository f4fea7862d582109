package ensemble

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// trainer is a network that acts as one model of an ensemble after another, with a worker's memory.
type trainer struct {
	*nn.Replica
	scores []float32
	rows   []float32 // a window that wraps around
	seen   []float32 // computed real records
	dx     []float32
	// own, m and v are the parameters and moments of a fresh model.
	own, m, v []float32
	work      Work
	pcg       rand.PCG
	rng       *rand.Rand
}

func newTrainer(net *nn.Network) *trainer {
	t := &trainer{Replica: nn.NewReplica(net)}
	t.rng = rand.New(&t.pcg)
	return t
}

// begin makes the network a fresh model with these parameters.
func (t *trainer) begin(params []float32) {
	n := len(params)
	t.own, t.m, t.v = tensor.Resize(t.own, n), tensor.Resize(t.m, n), tensor.Resize(t.v, n)
	copy(t.own, params)
	clear(t.m)
	clear(t.v)
	t.Take(t.own)
}

// accumulate adds half of the gradients of the loss over up to batch of the rows. If there are fewer rows and
// filling is given, rows of filling pass through the network for the rest of the batch, and add nothing.
func (t *trainer) accumulate(rows, filling []float32, batch int, loss losses.Loss, real bool) {
	n := len(rows) / t.Net.In()
	if n > batch {
		rows, n = t.window(rows, n, batch), batch
	}
	if n > 0 {
		scores := t.Net.Forward(rows, n)
		t.scores = tensor.Resize(t.scores, n)
		loss.Gradient(t.scores, scores, real)
		vector.Scale(t.scores, 0.5)
		t.Net.Backward(t.scores, true, false)
		t.work.Records += n
	}
	for len(filling) > 0 && n < batch {
		k := min(scoreRows, batch-n, len(filling)/t.Net.In())
		t.Net.Forward(filling[:k*t.Net.In()], k)
		t.scores = tensor.Resize(t.scores, k)
		clear(t.scores)
		t.Net.Backward(t.scores, true, false)
		t.work.Records += k
		n += k
	}
}

// window returns batch consecutive rows of n, starting at a random one and wrapping around. Rows have no
// particular order, so this costs only one draw.
func (t *trainer) window(rows []float32, n, batch int) []float32 {
	in, at := t.Net.In(), t.rng.IntN(n)
	if at+batch <= n {
		return rows[at*in : (at+batch)*in]
	}
	t.rows = append(append(t.rows[:0], rows[at*in:]...), rows[:(at+batch-n)*in]...)
	return t.rows
}
