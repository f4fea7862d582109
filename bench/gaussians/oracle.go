package main

import (
	"context"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
)

// bound is the number of steps that stand for the clip norm.
const bound = 1 << 16

// node answers a student's rounds from all records in one place, as nodes and aggregator
// do: Poisson samples, clipped gradients in whole steps, exact noise.
type node struct {
	x       []float32
	options dpgan.Options // chosen
	net     *discriminator.Discriminator
	steps   *nn.ClippedSteps
	rate    gnmax.Rate
	// sum is nil if nothing is private.
	sum    *gnmax.GaussianSum
	source *gnmax.Source

	sample []int
	batch  []float32
}

// newNode makes a node with noise of this multiplier; with 0 its answers are NOT PRIVATE.
func newNode(x []float32, o dpgan.Options, spec discriminator.Spec, noise float64) (*node, error) {
	n := &node{x: x, options: o, source: gnmax.NewSource()}
	var err error
	if n.net, err = discriminator.New(spec, rand.New(rand.NewPCG(1, 1))); err != nil {
		return nil, err
	}
	if n.steps, err = nn.NewClippedSteps(n.net.Net, o.Clip, bound); err != nil {
		return nil, err
	}
	if n.rate, err = gnmax.NewRate(o.Rate); err != nil {
		return nil, err
	}
	if noise > 0 {
		n.sum, err = gnmax.NewGaussianSum(bound, noise)
	}
	return n, err
}

// ClassCounts answers with the number of records, which is public here.
func (n *node) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	return &pipeline.CountAnswer{Counts: []float64{float64(len(n.x) / 2)}, Paid: pipeline.Paid{Teachers: 1}}, nil
}

func (n *node) Discriminator(_ context.Context, _ uint64, q *pipeline.DiscriminatorQuestion) (
	*pipeline.DiscriminatorAnswer, error) {
	if err := n.net.SetWeights(q.Weights); err != nil {
		return nil, err
	}
	var err error
	if n.sample, err = n.source.PoissonSample(n.sample[:0], len(n.x)/2, n.rate); err != nil {
		return nil, err
	}
	n.batch = n.batch[:0]
	ones := make([]int, len(n.sample))
	for i, k := range n.sample {
		n.batch = append(n.batch, n.x[2*k], n.x[2*k+1])
		ones[i] = 1
	}
	loss := losses.Logistic
	if n.options.Discriminator.Loss != dpgan.Logistic {
		loss = losses.Wasserstein
	}
	classes := make([]int, len(n.sample))
	n.steps.Reset()
	if err := n.steps.Add(n.net.Inputs(nil, n.batch, classes), ones, n.net.Heads(classes), loss); err != nil {
		return nil, err
	}
	sum := n.steps.Sum()
	if n.sum != nil {
		if sum, err = n.sum.Release(n.source, sum); err != nil {
			return nil, err
		}
	}
	a := &pipeline.DiscriminatorAnswer{Share: 1, Paid: pipeline.Paid{Teachers: 1}, Sum: make([]float32, len(sum))}
	for i, v := range sum {
		a.Sum[i] = float32(n.options.Clip * float64(v) / bound)
	}
	return a, nil
}
