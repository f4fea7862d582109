package pategan

import (
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/nn"
)

// labelled holds the queries of one round with what was released about them.
type labelled struct {
	// x holds discriminator inputs, [queries, width + classes].
	x       []float32
	classes []int
	share   []float32
	// known is 1 for answered queries, 0 for others.
	known []float32
	// before is the discriminator's output at the time of asking.
	before []float32
}

// discriminator is the student's: its output is the log-ratio of real to
// first-generated records, up to a constant per class.
type discriminator struct {
	net     *nn.MLP
	adam    *nn.Adam
	classes int
	trust   float32
	memory  float64
}

// fit trains on rounds drawn from all labelled ones, newer ones more often.
//
// A round's shares of votes are modelled as sigmoid(trust * (f - mean f)),
// where f = D(x) - D_before(x) and the mean runs over the round's queries of
// the same class: teachers vote relative to the round, so only differences
// within a round and class say something.
func (d *discriminator) fit(rounds []*labelled, steps int, rng *rand.Rand) {
	const roundsPerStep = 32
	rate := d.adam.Rate
	defer func() { d.adam.Rate = rate }()
	for step := range steps {
		// The step size falls to zero: what is left of the steps' own noise in D
		// would move the generator like a signal.
		d.adam.Rate = rate * (1 - float64(step)/float64(steps))
		take := min(roundsPerStep, len(rounds))
		for k := range take {
			r := rounds[k]
			if len(rounds) > roundsPerStep {
				r = rounds[d.draw(len(rounds), rng)]
			}
			weight := float32(1) / float32(take)
			if len(rounds) <= roundsPerStep {
				weight = float32(math.Pow(d.memory, float64(len(rounds)-1-k)))
			}
			d.accumulate(r, weight)
		}
		d.adam.Step()
	}
}

// draw picks a round with probability falling by memory with its age.
func (d *discriminator) draw(n int, rng *rand.Rand) int {
	if d.memory == 1 {
		return rng.IntN(n)
	}
	// Inverse of the truncated geometric distribution.
	u := rng.Float64() * (1 - math.Pow(d.memory, float64(n)))
	age := int(math.Log1p(-u) / math.Log(d.memory))
	return n - 1 - min(age, n-1)
}

// accumulate adds the gradient of the logistic loss of one round's labels. The
// loss is linear in the share, so noise that puts a share outside [0, 1]
// leaves its gradient without bias.
func (d *discriminator) accumulate(r *labelled, weight float32) {
	n := len(r.share)
	out := d.net.Forward(r.x, n)
	mean, count := make([]float32, d.classes), make([]float32, d.classes)
	for i, c := range r.classes {
		mean[c] += r.known[i] * (out[i] - r.before[i])
		count[c] += r.known[i]
	}
	for c := range mean {
		if count[c] > 0 {
			mean[c] /= count[c]
		}
	}
	grad, pull := make([]float32, n), make([]float32, d.classes)
	for i, c := range r.classes {
		f := d.trust * (out[i] - r.before[i] - mean[c])
		grad[i] = r.known[i] * weight * d.trust * (nn.Sigmoid(f) - r.share[i]) / float32(n)
		pull[c] += grad[i]
	}
	for i, c := range r.classes {
		if count[c] > 0 {
			grad[i] -= r.known[i] * pull[c] / count[c]
		}
	}
	d.net.Backward(grad, true, false)
}

// inputs appends the class of each record to its features.
func inputs(dst, x []float32, classes []int, width, classCount int) []float32 {
	w := width + classCount
	if cap(dst) < len(classes)*w {
		dst = make([]float32, len(classes)*w)
	}
	dst = dst[:len(classes)*w]
	for i, c := range classes {
		row := dst[i*w : (i+1)*w]
		copy(row, x[i*width:(i+1)*width])
		clear(row[width:])
		row[width+c] = 1
	}
	return dst
}
