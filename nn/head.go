package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// HeadKind is the type of an output head.
type HeadKind int

// The kinds of output heads.
const (
	// SigmoidHead squashes each value to (0, 1), for numbers.
	SigmoidHead HeadKind = iota
	// BernoulliHead draws 0 or 1 with the logistic probability.
	BernoulliHead
	// CategoricalHead draws a one-hot vector with the softmax probabilities.
	CategoricalHead
)

// Head is a typed group of a generator's outputs.
type Head struct {
	Kind          HeadKind
	Offset, Width int
}

// Heads turns the raw outputs of a generator into records. Draws use the
// Gumbel trick, and gradients pass through them as if the relaxed values had
// been used (the straight-through Gumbel-softmax of Jang, Gu and Poole 2017).
type Heads struct {
	heads       []Head
	width       int
	temperature float32
	soft        []float32
}

// NewHeads checks that the heads tile [0, width) in order.
func NewHeads(heads []Head, width int, temperature float64) (*Heads, error) {
	at := 0
	for i, h := range heads {
		if h.Offset != at || h.Width < 1 {
			return nil, fmt.Errorf("nn: head %d covers [%d, %d), want it to start at %d", i, h.Offset, h.Offset+h.Width, at)
		}
		at += h.Width
	}
	if at != width {
		return nil, fmt.Errorf("nn: heads cover %d of %d outputs", at, width)
	}
	if !(temperature > 0) {
		return nil, fmt.Errorf("nn: temperature is %v, want it above 0", temperature)
	}
	return &Heads{heads: heads, width: width, temperature: float32(temperature)}, nil
}

// Forward writes the records drawn from raw outputs, both of shape [n, width],
// to dst and keeps what Backward needs.
func (h *Heads) Forward(dst, raw []float32, n int, rng *rand.Rand) {
	h.soft = resize(h.soft, n*h.width)
	for i := range n {
		row, soft, out := raw[i*h.width:(i+1)*h.width], h.soft[i*h.width:(i+1)*h.width], dst[i*h.width:(i+1)*h.width]
		for _, head := range h.heads {
			lo, hi := head.Offset, head.Offset+head.Width
			switch head.Kind {
			case SigmoidHead:
				for j := lo; j < hi; j++ {
					soft[j] = Sigmoid(row[j])
					out[j] = soft[j]
				}
			case BernoulliHead:
				for j := lo; j < hi; j++ {
					u := rng.Float64()
					noise := float32(math.Log(u+1e-12) - math.Log(1-u+1e-12))
					soft[j] = Sigmoid((row[j] + noise) / h.temperature)
					out[j] = 0
					if soft[j] > 0.5 {
						out[j] = 1
					}
				}
			case CategoricalHead:
				best := lo
				for j := lo; j < hi; j++ {
					gumbel := -math.Log(rng.ExpFloat64() + 1e-20)
					soft[j] = (row[j] + float32(gumbel)) / h.temperature
					if soft[j] > soft[best] {
						best = j
					}
					out[j] = 0
				}
				out[best] = 1
				softmax(soft[lo:hi])
			}
		}
	}
}

// Backward turns the gradient with respect to the records of the last Forward
// into the gradient with respect to the raw outputs, in place.
func (h *Heads) Backward(grad []float32, n int) {
	for i := range n {
		g, soft := grad[i*h.width:(i+1)*h.width], h.soft[i*h.width:(i+1)*h.width]
		for _, head := range h.heads {
			lo, hi := head.Offset, head.Offset+head.Width
			switch head.Kind {
			case SigmoidHead:
				for j := lo; j < hi; j++ {
					g[j] *= soft[j] * (1 - soft[j])
				}
			case BernoulliHead:
				for j := lo; j < hi; j++ {
					g[j] *= soft[j] * (1 - soft[j]) / h.temperature
				}
			case CategoricalHead:
				var dot float32
				for j := lo; j < hi; j++ {
					dot += g[j] * soft[j]
				}
				for j := lo; j < hi; j++ {
					g[j] = soft[j] * (g[j] - dot) / h.temperature
				}
			}
		}
	}
}

// Sigmoid returns 1/(1+exp(-x)) without overflow.
func Sigmoid(x float32) float32 {
	if x >= 0 {
		return float32(1 / (1 + math.Exp(-float64(x))))
	}
	e := math.Exp(float64(x))
	return float32(e / (1 + e))
}

func softmax(x []float32) {
	top := x[0]
	for _, v := range x[1:] {
		top = max(top, v)
	}
	var sum float32
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - top)))
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}
