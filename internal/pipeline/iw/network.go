package iw

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
	"github.com/conclave-dp/conclave/internal/nn/scaling"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/partition/encode"
)

// NetworkOptions shape a network and its training.
type NetworkOptions struct {
	Hidden   int     // width of the hidden layer; 0 for none, a logistic regression
	Rate     float64 // probability that a privacy unit is in a step's sample
	Steps    int
	Clip     float64 // for a unit's gradient with respect to the weights
	StepSize float64 // Adam's
	Records  float64 // the public number of privacy units
}

// Oracle answers a step with the noisy sum of the gradients of a sample of real records.
// Steps are numbered from 0.
type Oracle interface {
	Gradient(ctx context.Context, step int, q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer, error)
}

// Network tells real from synthetic records. It is trained by relaxed DP-SGD: synthetic rows are public, so
// only the gradient of real records is clipped and gets noise, once for each step.
type Network struct {
	options NetworkOptions
	net     *discriminator.Discriminator
	x       []float32
	classes []int
	width   int
	rng     *rand.Rand
}

// Parameters is the number of weights of a network.
func Parameters(e *encode.Encoder, classCount, hidden int) int {
	return specOf(e, classCount, hidden).Parameters()
}

func specOf(e *encode.Encoder, classCount, hidden int) discriminator.Spec {
	return discriminator.Spec{
		Features: e.Width(), Numbers: e.Numbers(), Classes: classCount, Kind: discriminator.Dense, Hidden: hidden,
		Layers: min(1, hidden), Standard: true,
	}
}

// NewNetwork makes an untrained network for synthetic rows x, shape [len(classes), width].
func NewNetwork(e *encode.Encoder, x []float32, classes []int, classCount int, o NetworkOptions, seed uint64) (*Network,
	error) {
	n := &Network{options: o, x: x, classes: classes, width: e.Width(), rng: rand.New(rand.NewPCG(seed, 0x19))}
	var err error
	if n.net, err = discriminator.New(specOf(e, classCount, o.Hidden), n.rng); err != nil {
		return nil, fmt.Errorf("iw: %w", err)
	}
	units, err := scaling.New(x, classes, e.Width(), classCount, e.Numbers())
	if err != nil {
		return nil, fmt.Errorf("iw: %w", err)
	}
	n.net.SetUnits(units)
	return n, nil
}

// Spec returns the network's spec.
func (n *Network) Spec() discriminator.Spec { return n.net.Spec() }

var errDiverged = fmt.Errorf("iw: %w; lower weighting.mlp.step_size", pipeline.ErrDiverged)

func finite(weights []float32) bool {
	for _, w := range weights {
		if math.IsNaN(float64(w)) || math.IsInf(float64(w), 0) {
			return false
		}
	}
	return true
}

// batch is the number of synthetic rows in a step; they cost nothing.
const batch = 1024

// Run takes all steps and asks the oracle in each. The result is the average of the network over the second
// half of the steps, which has less of their noise. If a weight becomes NaN or infinite, the error is
// [pipeline.ErrDiverged].
func (n *Network) Run(ctx context.Context, oracle Oracle, progress func(done, steps int)) error {
	o := n.options
	adam := optimizer.NewAdam(n.net.Net.Params(), o.StepSize)
	var average []float32
	averaged := 0
	for step := range o.Steps {
		q := &pipeline.DiscriminatorQuestion{Weights: n.net.Weights()}
		q.Mean, q.Scale = n.net.Units().Units()
		a, err := oracle.Gradient(ctx, step, q)
		if err != nil {
			return err
		}
		if len(a.Sum) != n.net.Parameters() {
			return fmt.Errorf("iw: the release has %d numbers for %d weights", len(a.Sum), n.net.Parameters())
		}
		x, classes := n.draw()
		grad := make([]float32, len(classes))
		losses.Logistic(grad, n.net.Scores(x, classes), false)
		n.net.Backward(grad)
		// The size of the sample is private: divide the sum by its expected size.
		scale := float32(1 / (o.Rate * o.Records * a.Share))
		at := 0
		for _, p := range n.net.Net.Params() {
			for i := range p.Grad {
				p.Grad[i] += scale * a.Sum[at]
				at++
			}
		}
		adam.Step()
		if !finite(n.net.Weights()) {
			return errDiverged // otherwise every node would refuse the next question
		}
		if step >= o.Steps/2 {
			averaged++
			for i, w := range n.net.Weights() {
				if average == nil {
					average = make([]float32, n.net.Parameters())
				}
				average[i] += (w - average[i]) / float32(averaged)
			}
		}
		if progress != nil {
			progress(step+1, o.Steps)
		}
	}
	if err := n.net.SetWeights(average); err != nil {
		return fmt.Errorf("iw: %w", err)
	}
	return nil
}

// draw takes synthetic rows at random.
func (n *Network) draw() (x []float32, classes []int) {
	for range min(batch, len(n.classes)) {
		i := n.rng.IntN(len(n.classes))
		x, classes = append(x, n.x[i*n.width:(i+1)*n.width]...), append(classes, n.classes[i])
	}
	return x, classes
}

// LogOdds are the network's log-odds for its synthetic rows: the logarithm of the density ratio.
func (n *Network) LogOdds() ([]float64, error) {
	odds := make([]float64, 0, len(n.classes))
	for from := 0; from < len(n.classes); from += batch {
		to := min(len(n.classes), from+batch)
		for _, s := range n.net.Scores(n.x[from*n.width:to*n.width], n.classes[from:to]) {
			if math.IsNaN(float64(s)) || math.IsInf(float64(s), 0) {
				return nil, errDiverged
			}
			odds = append(odds, float64(s))
		}
	}
	return odds, nil
}
