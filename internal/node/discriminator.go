package node

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// discriminatorAsked is a question for the gradients of a discriminator that was checked.
type discriminatorAsked struct {
	net     *discriminator.Discriminator
	loss    nn.Loss
	rate    gnmax.Rate
	clip    float64
	bound   int64
	nothing bool
}

// scored is the discriminator that was asked about last: it changes over a run in its
// weights and units only.
type scored struct {
	spec  *conclavev1.Discriminator
	net   *discriminator.Discriminator
	clip  float64
	bound int64
	sums  *nn.ClippedSteps
	// x are records of a part of a sample and inputs what the network sees of them: space
	// that the next part takes again.
	x, inputs []float32
}

// The fixed-point units that aggregators take.
const (
	minBound = 1 << 8
	maxBound = 1 << 20
)

func (n *Node) checkDiscriminatorSum(q *conclavev1.DiscriminatorSum) (*discriminatorAsked, error) {
	a := &discriminatorAsked{clip: q.Clip, bound: int64(q.Bound), nothing: q.Nothing}
	switch q.Loss {
	case conclavev1.DiscriminatorSum_LOSS_LOGISTIC:
		a.loss = nn.Logistic
	case conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN:
		a.loss = nn.Wasserstein
	default:
		return nil, fmt.Errorf("discriminator loss %v is not known to this node; use logistic or wasserstein, or update it", q.Loss)
	}
	var err error
	switch {
	case !(q.Clip > 0) || math.IsInf(q.Clip, 0):
		return nil, fmt.Errorf("gradients are clipped at %v; use a number above 0", q.Clip)
	case q.Bound < minBound || q.Bound > maxBound:
		return nil, fmt.Errorf("the fixed-point bound of gradients is %d; use %d to %d", q.Bound, minBound, maxBound)
	}
	if a.rate, err = gnmax.NewRate(q.Rate); err != nil {
		return nil, err
	}
	if a.net, err = n.discriminator(q.Discriminator); err != nil {
		return nil, err
	}
	if err := n.scored.clipTo(a.clip, a.bound); err != nil {
		return nil, err
	}
	weights, err := nn.Floats(q.Weights)
	if err != nil {
		return nil, err
	}
	if err := a.net.SetWeights(weights); err != nil {
		return nil, err
	}
	if !q.Discriminator.Standard {
		return a, nil
	}
	units, err := n.standardOf(q.Mean, q.Scale)
	if err != nil {
		return nil, err
	}
	a.net.SetUnits(units)
	return a, nil
}

// discriminator makes the network that a description names, or finds the last one.
func (n *Node) discriminator(d *conclavev1.Discriminator) (*discriminator.Discriminator, error) {
	if d == nil {
		return nil, errors.New("the question does not describe its discriminator")
	}
	if n.scored != nil && proto.Equal(n.scored.spec, d) {
		return n.scored.net, nil
	}
	if int64(d.Classes) != int64(n.classes) {
		return nil, fmt.Errorf("a discriminator of %d classes; the schema has %d, so use the same schema at both sides", d.Classes, n.classes)
	}
	s := discriminator.Spec{
		Features: n.features, Numbers: n.numbers, Classes: n.classes, Hidden: int(d.Hidden), Layers: int(d.Layers),
		Each: d.ByClass == conclavev1.Discriminator_CLASSES_EACH, Standard: d.Standard, Cosines: int(d.Cosines),
		Pieces: d.Pieces, Fourier: int(d.Fourier), Seed: d.Seed,
	}
	if i := n.schema.Image; i != nil {
		s.Image = nn.Shape{Height: i.Height, Width: i.Width, Channels: i.Channels}
	}
	switch d.Kind {
	case conclavev1.Discriminator_KIND_DENSE:
		s.Kind = discriminator.Dense
	case conclavev1.Discriminator_KIND_CONVOLUTION:
		s.Kind = discriminator.Convolution
	}
	if d.ByClass != conclavev1.Discriminator_CLASSES_TOLD && !s.Each {
		return nil, fmt.Errorf("how the discriminator knows the class, %v, is not known to this node; use told or each, or update it", d.ByClass)
	}
	net, err := discriminator.New(s, rand.New(rand.NewPCG(0, 0))) // weights travel with the question
	if err != nil {
		return nil, err
	}
	n.scored = &scored{spec: proto.Clone(d).(*conclavev1.Discriminator), net: net}
	return net, nil
}

// clipTo makes an empty sum of gradients of this clip norm and bound, or keeps the last.
func (s *scored) clipTo(clip float64, bound int64) error {
	if s.sums != nil && s.clip == clip && s.bound == bound {
		return nil
	}
	sums, err := nn.NewClippedSteps(s.net.Net, clip, bound)
	if err != nil {
		return err
	}
	s.clip, s.bound, s.sums = clip, bound, sums
	return nil
}

// standardOf reads the units of standard inputs.
func (n *Node) standardOf(mean, scale *conclavev1.Tensor) (*nn.Standard, error) {
	m, err := nn.Floats(mean.GetData())
	if err != nil {
		return nil, err
	}
	s, err := nn.Floats(scale.GetData())
	if err != nil {
		return nil, err
	}
	return nn.StandardOf(m, s, n.features, n.classes, n.numbers)
}

// sampleChunk is how many units are taken at a time: it bounds the memory.
const sampleChunk = 512

// discriminatorSum returns the sum of the clipped gradients of a sample of the node's
// privacy units, in whole steps.
//
// Each unit adds a vector with an L2 norm of at most the bound, in whole numbers, and the
// sum is one of whole numbers: what a unit adds does not depend on the others. A node
// without anybody in its sample answers with zeros, as long as any other. How many were in
// the sample, and who, is not kept. A question that is asked again gets another sample; the
// aggregator releases one of the answers.
func (n *Node) discriminatorSum(a *discriminatorAsked) ([]int64, error) {
	s := n.scored
	s.sums.Reset()
	if a.nothing {
		return slices.Clone(s.sums.Sum()), nil
	}
	sample, err := n.sample(a.rate)
	if err != nil {
		return nil, err
	}
	var classes, records []int
	for len(sample) > 0 {
		chunk := sample[:min(sampleChunk, len(sample))]
		sample = sample[len(chunk):]
		x := s.x[:0]
		classes, records = classes[:0], records[:0]
		for _, u := range chunk {
			for _, r := range n.units[u] {
				x = append(x, n.examples[r.teacher].ByClass[r.class][r.at*n.features:(r.at+1)*n.features]...)
				classes = append(classes, r.class)
			}
			records = append(records, len(n.units[u]))
		}
		s.x, s.inputs = x, a.net.Inputs(s.inputs[:0], x, classes)
		if err := s.sums.Add(s.inputs, records, a.net.Heads(classes), a.loss); err != nil {
			return nil, err
		}
	}
	return slices.Clone(s.sums.Sum()), nil
}

// sample draws who is in a sample.
func (n *Node) sample(rate gnmax.Rate) ([]int, error) {
	if n.sampled != nil {
		return n.sampled(rate.Float()), nil
	}
	sample, err := gnmax.NewSource().PoissonSample(nil, len(n.units), rate)
	if err != nil {
		return nil, errSample
	}
	return sample, nil
}

// errSample says nothing of records.
var errSample = errors.New("the node cannot draw random numbers")
