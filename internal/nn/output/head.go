// Package output turns the raw outputs of a generator into records.
package output

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// HeadKind is the type of an output head.
type HeadKind int

// The kinds of output heads.
const (
	// SigmoidHead maps each value to (0, 1), for numbers. One head for many values, such as the pixels of an
	// image, is a vector operation and much faster than many heads; the results differ in the last bits.
	SigmoidHead HeadKind = iota
	// BernoulliHead draws 0 or 1 with the logistic probability.
	BernoulliHead
	// CategoricalHead draws a one-hot vector with the softmax probabilities.
	CategoricalHead
	// SoftmaxHead gives the softmax probabilities themselves.
	SoftmaxHead
	// GumbelHead draws a relaxed one-hot vector, softmax((z + g) / Temperature) with Gumbel noise g (Jang, Gu and
	// Poole 2017; Maddison, Mnih and Teh 2017). Its gradient is the gradient of the draw.
	GumbelHead
)

// grouped says whether the outputs of a head share a softmax.
func (k HeadKind) grouped() bool { return k >= CategoricalHead }

// Head is a typed group of a generator's outputs.
type Head struct {
	Kind          HeadKind
	Offset, Width int
}

// Heads turns the raw outputs of a generator into records. Categories are drawn with the Gumbel trick, so that
// records hold categories and not probabilities.
//
// The gradient of a category is that of its expectation. With e_k the loss for category k and p the softmax of the
// raw outputs z, the expected loss is sum p_k e_k, and its derivative with respect to z_k is p_k (e_k - sum p_j
// e_j). It is exact if Backward is given e (up to a constant), and needs no relaxed draw, whose gradient is
// biased.
//
// Relaxed draws are for critics that must see values between categories.
type Heads struct {
	// Temperature of Gumbel heads, above 0. Lower values make draws closer to one-hot and increase the variance of
	// their gradients. It starts at 1.
	Temperature float32

	heads []Head
	width int
	mean  []float32
	drawn []float32 // what relaxed draws gave
}

// NewHeads checks that the heads tile [0, width) in order.
func NewHeads(heads []Head, width int) (*Heads, error) {
	at := 0
	for i, h := range heads {
		if h.Offset != at || h.Width < 1 {
			return nil, fmt.Errorf("output: head %d covers [%d, %d), want it to start at %d",
				i, h.Offset, h.Offset+h.Width, at)
		}
		if h.Kind < SigmoidHead || h.Kind > GumbelHead {
			return nil, fmt.Errorf("output: head %d is of kind %d, which is unknown", i, int(h.Kind))
		}
		at += h.Width
	}
	if at != width {
		return nil, fmt.Errorf("output: heads cover %d of %d outputs", at, width)
	}
	return &Heads{Temperature: 1, heads: heads, width: width}, nil
}

// Forward writes the records drawn from raw outputs, both of shape [n, width],
// to dst and keeps what Backward needs.
func (h *Heads) Forward(dst, raw []float32, n int, rng *rand.Rand) {
	h.mean, h.drawn = tensor.Resize(h.mean, n*h.width), tensor.Resize(h.drawn, n*h.width)
	for i := range n {
		row, mean, out := raw[i*h.width:(i+1)*h.width], h.mean[i*h.width:(i+1)*h.width], dst[i*h.width:(i+1)*h.width]
		for _, head := range h.heads {
			lo, hi := head.Offset, head.Offset+head.Width
			switch head.Kind {
			case SigmoidHead:
				// Not for one number: the draws of existing seeds must not change.
				if head.Width == 1 {
					mean[lo] = Sigmoid(row[lo])
				} else {
					vector.Sigmoid(mean[lo:hi], row[lo:hi])
				}
				copy(out[lo:hi], mean[lo:hi])
			case BernoulliHead:
				for j := lo; j < hi; j++ {
					mean[j] = Sigmoid(row[j])
					out[j] = 0
					if rng.Float32() < mean[j] {
						out[j] = 1
					}
				}
			case CategoricalHead:
				best, top := lo, math.Inf(-1)
				for j := lo; j < hi; j++ {
					if v := float64(row[j]) - math.Log(rng.ExpFloat64()+1e-20); v > top {
						best, top = j, v
					}
					out[j], mean[j] = 0, row[j]
				}
				out[best] = 1
				softmax(mean[lo:hi])
			case SoftmaxHead:
				copy(mean[lo:hi], row[lo:hi])
				softmax(mean[lo:hi])
				copy(out[lo:hi], mean[lo:hi])
			case GumbelHead:
				copy(mean[lo:hi], row[lo:hi])
				softmax(mean[lo:hi])
				for j := lo; j < hi; j++ {
					out[j] = float32((float64(row[j]) - math.Log(rng.ExpFloat64()+1e-20)) / float64(h.Temperature))
				}
				softmax(out[lo:hi])
				copy(h.drawn[i*h.width+lo:i*h.width+hi], out[lo:hi])
			}
		}
	}
}

// Mean returns the expectation of the records of the last Forward, of shape [n, width]: numbers unchanged, choices
// as probabilities. The caller must not change it.
func (h *Heads) Mean() []float32 { return h.mean }

// Backward converts the gradient with respect to the records of the last Forward into the gradient with respect to
// the raw outputs, in place. The gradient of a category is the loss of choosing it; for a Bernoulli head it is the
// loss of 1 minus that of 0. Probabilities and relaxed draws have ordinary gradients.
func (h *Heads) Backward(grad []float32, n int) {
	for i := range n {
		g, mean := grad[i*h.width:(i+1)*h.width], h.mean[i*h.width:(i+1)*h.width]
		for _, head := range h.heads {
			lo, hi := head.Offset, head.Offset+head.Width
			switch head.Kind {
			case SigmoidHead, BernoulliHead:
				for j := lo; j < hi; j++ {
					g[j] *= mean[j] * (1 - mean[j])
				}
			case CategoricalHead, SoftmaxHead:
				softmaxBackward(g[lo:hi], mean[lo:hi], 1)
			case GumbelHead:
				softmaxBackward(g[lo:hi], h.drawn[i*h.width+lo:i*h.width+hi], 1/h.Temperature)
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

// softmaxBackward converts the gradient with respect to y, the softmax of scale times x, into that with respect to
// x.
func softmaxBackward(g, y []float32, scale float32) {
	var dot float32
	for j, v := range y {
		dot += g[j] * v
	}
	for j, v := range y {
		g[j] = scale * v * (g[j] - dot)
	}
}

func softmax(x []float32) { vector.Softmax(x, 1, len(x)) }
