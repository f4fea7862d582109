package pipeline

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Pair is a generator and the student's discriminator of its records after a step or round, for the stages
// after training. Both follow from releases alone. The sigmoid of the discriminator's score is the probability
// that a record is real, if real and generated records are equally many. Its accuracy depends on the pipeline.
//
// Pairs of one run share memory: use one at a time.
type Pair struct {
	Step          int
	Generator     *Generator
	Discriminator *discriminator.Discriminator
}

// Paired is a student that stores generators with their discriminators.
type Paired interface {
	Pairs() ([]Pair, error)
}

// Probabilities appends to dst the probability that each of the records x of the classes,
// shape [len(classes), Generator.Width], is real.
func (p Pair) Probabilities(dst []float64, x []float32, classes []int) []float64 {
	for _, s := range p.Discriminator.Scores(x, classes) {
		dst = append(dst, 1/(1+math.Exp(-float64(s))))
	}
	return dst
}

// DiscriminatorBound is the fixed-point unit of a privacy unit's gradient of a discriminator.
const DiscriminatorBound = 1 << 16

// WithWeights returns a generator that shares everything except the network, which has these weights. It
// returns an error if they belong to another network.
func (g *Generator) WithWeights(params []tensor.Param) (*Generator, error) {
	set, net := safetensors.New(), g.Net.Clone()
	set.Add("", params)
	if err := set.CopyTo("", net.Params()); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return g.With(net), nil
}

// CopyParams copies the tensors of a network, without gradients.
func CopyParams(params []tensor.Param) []tensor.Param {
	out := make([]tensor.Param, len(params))
	for i, p := range params {
		out[i] = tensor.Param{Name: p.Name, Shape: p.Shape, Value: append([]float32(nil), p.Value...)}
	}
	return out
}
