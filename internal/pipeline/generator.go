package pipeline

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/output"
	"github.com/conclave-dp/conclave/partition/encode"
)

// EmptyNumber is the value that encode.Encoder writes for the number of an empty cell.
const EmptyNumber = 0.5

// Generator makes encoded records of a wanted class from noise. Its network can be replaced, so that a
// generator and its moving average share the rest.
type Generator struct {
	Net   *nn.Network
	spec  GeneratorSpec
	of    *encode.Encoder
	width int
	heads *output.Heads
	warp  *warp // nil for none
	// empties pairs each missing flag with the number it empties.
	empties [][2]int

	input []float32
	raw   []float32
}

// NewGenerator builds an untrained generator for the features of e. Its first outputs spread over the public
// ranges.
func NewGenerator(e *encode.Encoder, spec GeneratorSpec, rng *rand.Rand) (*Generator, error) {
	if err := spec.Check(e); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	g := &Generator{spec: spec, of: e, width: e.Width()}
	for _, h := range e.Heads() {
		if h.Kind == encode.HeadMissing {
			g.empties = append(g.empties, [2]int{h.Offset, h.Offset - 1})
		}
	}
	if spec.Warp > 0 {
		g.warp = &warp{shape: *e.Image(), strength: spec.Warp}
	}
	var err error
	if g.heads, err = output.NewHeads(heads(e), g.width); err != nil {
		return nil, err
	}
	if g.Net, err = nn.NewNetwork(rng, nn.Vector(spec.Noise+spec.Classes), spec.layers(e)...); err != nil {
		return nil, err
	}
	return g, nil
}

func heads(e *encode.Encoder) []output.Head {
	if image := e.Image(); image != nil {
		// One head for all pixels takes a fraction of the time of many.
		return []output.Head{{Kind: output.SigmoidHead, Width: image.Size()}}
	}
	var all []output.Head
	for _, h := range e.Heads() {
		kind := output.SigmoidHead
		switch h.Kind {
		case encode.HeadBinary, encode.HeadMissing:
			kind = output.BernoulliHead
		case encode.HeadCategory:
			kind = output.CategoricalHead
		}
		all = append(all, output.Head{Kind: kind, Offset: h.Offset, Width: h.Width})
	}
	return all
}

// Width returns the number of features of a record.
func (g *Generator) Width() int { return g.width }

// With returns a generator with another network; it shares everything else.
func (g *Generator) With(net *nn.Network) *Generator {
	other := *g
	other.Net, other.input, other.raw = net, nil, nil
	return &other
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
	if g.warp != nil {
		g.warp.draw(n, rng)
		g.warp.forward(dst[:n*g.width])
	}
	for _, e := range g.empties {
		for i := range n {
			if dst[i*g.width+e[0]] == 1 {
				dst[i*g.width+e[1]] = EmptyNumber
			}
		}
	}
}

// Numbers returns the expectation of the records of the last Sample, as [nn.Heads.Mean] does. Empty cells keep
// their numbers.
func (g *Generator) Numbers() []float32 { return g.heads.Mean() }

// Filled writes to dst the records x of the last Sample, with a value in every empty cell: a number as it was
// before the cell was emptied, and for a choice of 0 or 1 the probability of 1. It returns dst.
func (g *Generator) Filled(dst, x []float32) []float32 {
	copy(dst, x)
	for _, e := range g.empties {
		for i := 0; i < len(x); i += g.width {
			if x[i+e[0]] == 1 {
				dst[i+e[1]] = g.heads.Mean()[i+e[1]]
			}
		}
	}
	return dst
}

// Backward adds the gradients of the network for grad, the gradient with respect to the records x of the last
// Sample. For a choice, grad is the loss of each value, see [nn.Heads]. It overwrites grad.
func (g *Generator) Backward(grad, x []float32) {
	n := len(x) / g.width
	for _, e := range g.empties {
		for i := range n {
			if x[i*g.width+e[0]] == 1 {
				grad[i*g.width+e[1]] = 0
			}
		}
	}
	if g.warp != nil {
		g.warp.backward(grad)
	}
	g.heads.Backward(grad, n)
	g.Net.Backward(grad, true, false)
}
