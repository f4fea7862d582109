package pipeline

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/nn"
	"github.com/conclave-dp/conclave/partition"
)

// GeneratorSpec is the shape of a generator.
type GeneratorSpec struct {
	Noise   int `json:"noise"`
	Hidden  int `json:"hidden"`
	Layers  int `json:"layers"`
	Classes int `json:"classes"`
}

// EmptyNumber is what partition.Encoder writes into the number of an empty
// cell.
const EmptyNumber = 0.5

// Generator makes encoded records of a wanted class from noise. The
// network behind it can be exchanged, so that a generator and its moving
// average share the rest.
type Generator struct {
	Net   *nn.Network
	spec  GeneratorSpec
	width int
	heads *nn.Heads
	// empties pairs each missing flag with the number it empties.
	empties [][2]int

	input []float32
	raw   []float32
}

// NewGenerator builds an untrained generator for the features of e. Its
// outputs start spread over the public ranges.
func NewGenerator(e *partition.Encoder, spec GeneratorSpec, rng *rand.Rand) (*Generator, error) {
	if spec.Noise < 1 || spec.Hidden < 1 || spec.Layers < 1 || spec.Classes < 1 {
		return nil, fmt.Errorf("pipeline: generator with noise %d, hidden %d, layers %d, classes %d: all must be at least 1", spec.Noise, spec.Hidden, spec.Layers, spec.Classes)
	}
	g := &Generator{spec: spec, width: e.Width()}
	var heads []nn.Head
	for _, h := range e.Heads() {
		kind := nn.SigmoidHead
		switch h.Kind {
		case partition.HeadBinary, partition.HeadMissing:
			kind = nn.BernoulliHead
		case partition.HeadCategory:
			kind = nn.CategoricalHead
		}
		if h.Kind == partition.HeadMissing {
			g.empties = append(g.empties, [2]int{h.Offset, h.Offset - 1})
		}
		heads = append(heads, nn.Head{Kind: kind, Offset: h.Offset, Width: h.Width})
	}
	var err error
	if g.heads, err = nn.NewHeads(heads, g.width); err != nil {
		return nil, err
	}
	var layers []nn.Spec
	for range spec.Layers {
		layers = append(layers, nn.Dense{Out: spec.Hidden}, nn.LeakyReLU(leak))
	}
	layers = append(layers, nn.Dense{Out: g.width, Init: nn.Init(nn.GlorotUniform).Times(initialSpread)})
	if g.Net, err = nn.NewNetwork(rng, nn.Vector(spec.Noise+spec.Classes), layers...); err != nil {
		return nil, err
	}
	return g, nil
}

// initialSpread widens the first outputs: with the middle of every range as a
// start, no query would tell teachers apart.
const initialSpread = 3

// leak is the slope of the rectifiers below zero.
const leak = 0.2

// Width returns the number of features of a record.
func (g *Generator) Width() int { return g.width }

// With returns a generator that shares everything but the network.
func (g *Generator) With(net *nn.Network) *Generator {
	return &Generator{Net: net, spec: g.spec, width: g.width, heads: g.heads, empties: g.empties}
}

// Sample draws one record for each class into dst, shape [len(classes), Width],
// and keeps what Backward needs.
func (g *Generator) Sample(dst []float32, classes []int, rng *rand.Rand) {
	n, in := len(classes), g.spec.Noise+g.spec.Classes
	if cap(g.input) < n*in {
		g.input = make([]float32, n*in)
	}
	g.input = g.input[:n*in]
	clear(g.input)
	for i, c := range classes {
		row := g.input[i*in : (i+1)*in]
		for j := range g.spec.Noise {
			row[j] = float32(rng.NormFloat64())
		}
		row[g.spec.Noise+c] = 1
	}
	g.raw = g.Net.Forward(g.input, n)
	g.heads.Forward(dst, g.raw, n, rng)
	for _, e := range g.empties {
		for i := range n {
			if dst[i*g.width+e[0]] == 1 {
				dst[i*g.width+e[1]] = EmptyNumber
			}
		}
	}
}

// Numbers returns the expectation of the records of the last Sample as
// [nn.Heads.Mean] does, with the numbers that empty cells would have held.
func (g *Generator) Numbers() []float32 { return g.heads.Mean() }

// Backward adds the gradients of the network for grad, the gradient with
// respect to the records x of the last Sample; that of a choice is the loss of
// choosing it, see [nn.Heads]. It overwrites grad.
func (g *Generator) Backward(grad, x []float32) {
	n := len(x) / g.width
	for _, e := range g.empties {
		for i := range n {
			if x[i*g.width+e[0]] == 1 {
				grad[i*g.width+e[1]] = 0
			}
		}
	}
	g.heads.Backward(grad, n)
	g.Net.Backward(grad, true, false)
}
