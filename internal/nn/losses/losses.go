// Package losses has the losses of a critic that gives each of n records one score.
//
// Each function returns the loss and writes its gradient with respect to the scores to grad, of equal length. A
// critic's loss is the sum of the losses over real and over generated records; a generator's loss is that of its
// records as if they were real. Without scores the loss is 0.
//
// For losses that are a mean over records, such as [Logistic] and [Wasserstein], n times the gradient is that of
// each record's own loss.
package losses

import (
	"math"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
)

// Loss is [Logistic], [Wasserstein] or [KLWGAN].
type Loss func(grad, scores []float32, real bool) float64

// Gradient writes the gradient of the loss to grad; a nil loss means [Logistic]. The value of the logistic loss
// costs more than its gradient and is not computed.
func (l Loss) Gradient(grad, scores []float32, real bool) {
	if l == nil {
		logisticGrad(grad, scores, real)
		return
	}
	l(grad, scores, real)
}

// Logistic is the mean of softplus(-score) over real records and of
// softplus(score) over others (Goodfellow et al. 2014, with the generator's loss
// that does not saturate).
func Logistic(grad, scores []float32, real bool) float64 {
	sign := float32(1)
	if real {
		sign = -1
	}
	copy(grad, scores)
	vector.Scale(grad, sign)
	vector.Softplus(grad, grad)
	var sum float64
	for _, v := range grad {
		sum += float64(v)
	}
	logisticGrad(grad, scores, real)
	return mean(sum, len(scores))
}

// logisticGrad is the gradient of [Logistic] alone.
func logisticGrad(grad, scores []float32, real bool) {
	sign := float32(1)
	if real {
		sign = -1
	}
	copy(grad, scores)
	vector.Scale(grad, sign)
	vector.Sigmoid(grad, grad)
	vector.Scale(grad, sign/float32(len(scores)))
}

// Wasserstein is the mean of -score over real records and of score over others
// (Arjovsky, Chintala and Bottou 2017). The critic must be kept from growing
// without bound, by clipping weights or gradients.
func Wasserstein(grad, scores []float32, real bool) float64 {
	sign := 1.0
	if real {
		sign = -1
	}
	var sum float64
	for i, s := range scores[:len(grad)] {
		sum += sign * float64(s)
		grad[i] = float32(sign / float64(len(scores)))
	}
	return mean(sum, len(scores))
}

// KLWGANCritic is the loss of KL-WGAN's critic over generated records (Song and Ermon 2020, "Bridging the gap
// between f-GANs and Wasserstein GANs"); the loss over real ones is [Wasserstein]. Generated records count with
// their estimated density ratios r_i = exp(s_i) / mean_j exp(s_j), of mean 1.
//
// The paper's objective is mean(s) over real records minus the minimum over weights r of mean(r s) + KL(r), which
// these r attain. At the optimum its gradient equals that with r fixed, r_i / n: no gradient flows through r. It
// is also the gradient of log mean_j exp(s_j), the value returned.
func KLWGANCritic(grad, scores []float32) float64 {
	value := ratios(grad, scores)
	for i := range grad {
		grad[i] /= float32(len(scores))
	}
	return value
}

// KLWGAN is the critic's loss: [Wasserstein] over real records, [KLWGANCritic] over
// generated ones.
func KLWGAN(grad, scores []float32, real bool) float64 {
	if real {
		return Wasserstein(grad, scores, true)
	}
	return KLWGANCritic(grad, scores)
}

// KLWGANGenerator is -mean(r s) over generated records with r as for
// [KLWGANCritic], again held fixed: its gradient is -r_i / n.
func KLWGANGenerator(grad, scores []float32) float64 {
	ratios(grad, scores)
	var sum float64
	for i, r := range grad {
		sum -= float64(r) * float64(scores[i])
		grad[i] = -r / float32(len(scores))
	}
	return mean(sum, len(scores))
}

// ratios writes exp(s_i) / mean_j exp(s_j) and returns the mean's logarithm.
func ratios(r, scores []float32) float64 {
	if len(scores) == 0 {
		return 0
	}
	top := float64(scores[0])
	for _, s := range scores {
		top = math.Max(top, float64(s)) // NaN stays
	}
	var sum float64
	for _, s := range scores {
		sum += math.Exp(float64(s) - top)
	}
	level := top + math.Log(sum/float64(len(scores)))
	for i, s := range scores[:len(r)] {
		r[i] = float32(math.Exp(float64(s) - level))
	}
	return level
}

func mean(sum float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
