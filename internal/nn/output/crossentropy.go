package output

import (
	"math"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
)

// CrossEntropy returns the mean over n records of -log p(target), added up over the heads, and writes the gradient
// with respect to raw to grad. raw holds the outputs that define p; all arguments have shape [n, width].
//
// A target of a softmax, drawn or relaxed, is a distribution over the categories: one-hot for a known one, all
// zeros for an unknown one, which costs nothing. Targets of other heads are numbers from 0 to 1.
func (h *Heads) CrossEntropy(grad, raw, target []float32, n int) float64 {
	var sum float64
	scale := 1 / float32(max(n, 1))
	for i := range n {
		g, z, t := grad[i*h.width:(i+1)*h.width], raw[i*h.width:(i+1)*h.width], target[i*h.width:(i+1)*h.width]
		for _, head := range h.heads {
			lo, hi := head.Offset, head.Offset+head.Width
			if head.Kind.grouped() {
				sum += softmaxEntropy(g[lo:hi], z[lo:hi], t[lo:hi], scale)
				continue
			}
			for j := lo; j < hi; j++ {
				// -t log p - (1-t) log(1-p) with p the sigmoid of z.
				sum += softplus(float64(z[j])) - float64(t[j])*float64(z[j])
			}
			vector.Sigmoid(g[lo:hi], z[lo:hi])
			for j := lo; j < hi; j++ {
				g[j] = (g[j] - t[j]) * scale
			}
		}
	}
	return sum / float64(max(n, 1))
}

// softmaxEntropy returns the cross entropy of one group, its gradient times
// scale.
func softmaxEntropy(grad, raw, target []float32, scale float32) float64 {
	copy(grad, raw)
	softmax(grad)
	top := float64(raw[0])
	for _, v := range raw {
		top = math.Max(top, float64(v))
	}
	var sum, weight, dot float64
	for j, v := range raw {
		sum += math.Exp(float64(v) - top)
		weight += float64(target[j])
		dot += float64(target[j]) * (float64(v) - top)
	}
	for j, p := range grad {
		grad[j] = (p*float32(weight) - target[j]) * scale
	}
	return weight*math.Log(sum) - dot
}

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
