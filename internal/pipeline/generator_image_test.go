package pipeline

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// smallConvolution makes images of 8 x 12 pixels with 2 channels from 2 x 3.
func smallConvolution(t *testing.T) *NetworkModel {
	t.Helper()
	return modelOf(t, imageSchema(t, 8, 12, 2), GeneratorSpec{Kind: KindConvolution, Noise: 5, Hidden: 6, Layers: 2,
		Classes: 2}, 0.5, 0.5)
}

// sampled are n records of alternating classes.
func sampled(g *Generator, n int, seed uint64) []float32 {
	x := make([]float32, n*g.Width())
	g.Sample(x, Balanced(n, 2), rand.New(rand.NewPCG(seed, 2)))
	return x
}

// Features are pixels row by row with the channels together, like the network's images: the last pixel of the
// first grid appears at the lower right, and a bias of a channel in that channel.
func TestConvolutionMakesPixelsInOrder(t *testing.T) {
	g := smallConvolution(t).Generator
	if want := (nn.Shape{Height: 8, Width: 12, Channels: 2}); g.Net.Shape() != want {
		t.Fatalf("the network makes images of shape %v, want %v", g.Net.Shape(), want)
	}
	params := g.Net.Params() // weight and bias of the dense layer and two convolutions
	const corner = 6 * (1*3 + 2)
	for _, p := range params {
		clear(p.Value)
	}
	for i := corner; i < corner+6; i++ {
		params[1].Value[i] = 1
	}
	for _, p := range []tensor.Param{params[2], params[4]} {
		for i := range p.Value {
			p.Value[i] = 1
		}
	}
	params[5].Value[1] = -1000
	x := sampled(g, 1, 1)
	var touched []int
	for i, v := range x {
		switch {
		case i%2 == 1 && v != 0:
			t.Errorf("feature %d of the second channel is %v, want 0", i, v)
		case i%2 == 0 && v != 0.5:
			touched = append(touched, i/2)
		}
	}
	var want []int // an input pixel reaches 4 x 4 of the next grid, and each of these 4 x 4 of the last
	for row := 1; row < 8; row++ {
		for column := 5; column < 12; column++ {
			want = append(want, row*12+column)
		}
	}
	// Pixel (1, 2) of 2 x 3 begins at (1, 3) of 4 x 6, that at (1, 5) of 8 x 12.
	if !slices.Equal(touched, want) {
		t.Errorf("pixels %v depend on the last pixel of the first grid, want %v", touched, want)
	}
}

// The gradients of all parameters agree with central differences, for both kinds.
func TestGeneratorGradients(t *testing.T) {
	schema := imageSchema(t, 4, 8, 2)
	for _, spec := range []GeneratorSpec{
		{Kind: KindDense, Noise: 3, Hidden: 5, Layers: 2, Classes: 2},
		{Kind: KindConvolution, Noise: 3, Hidden: 5, Layers: 2, Classes: 2},
		{Kind: KindConvolution, Noise: 3, Hidden: 3, Layers: 1, Classes: 2},
	} {
		g := modelOf(t, schema, spec, 0.5, 0.5).Generator
		const n = 3
		weights := make([]float32, n*g.Width())
		rng := rand.New(rand.NewPCG(8, 9))
		for i := range weights {
			weights[i] = float32(rng.NormFloat64())
		}
		loss := func() (sum float64) {
			for i, v := range sampled(g, n, 3) {
				sum += float64(weights[i]) * float64(v)
			}
			return sum
		}
		x := sampled(g, n, 3)
		g.Backward(slices.Clone(weights), x)
		for _, p := range g.Net.Params() {
			for i := range p.Value {
				const h = 1e-3
				was := p.Value[i]
				p.Value[i] = was + h
				up := loss()
				p.Value[i] = was - h
				down := loss()
				p.Value[i] = was
				if got, want := float64(p.Grad[i]), (up-down)/(2*h); math.Abs(got-want) > 5e-3*(1+math.Abs(want)) {
					t.Errorf("%+v: gradient of %s[%d] is %v, want %v", spec, p.Name, i, got, want)
				}
			}
		}
	}
}

// The first images are neither all alike nor all at the ends of the range, at any size.
func TestFirstImagesAreSpread(t *testing.T) {
	for _, spec := range []GeneratorSpec{
		{Kind: KindConvolution, Noise: 32, Hidden: 32, Layers: 2, Classes: 2},
		{Kind: KindConvolution, Noise: 8, Hidden: 64, Layers: 4, Classes: 2},
		{Noise: 32, Hidden: 64, Layers: 2, Classes: 2},
	} {
		g := modelOf(t, imageSchema(t, 32, 32, 1), spec, 0.5, 0.5).Generator
		const n = 64
		x := sampled(g, n, 1)
		var deviation float64
		for j := range g.Width() {
			var sum, squares float64
			for i := range n {
				v := float64(x[i*g.Width()+j])
				sum, squares = sum+v, squares+v*v
			}
			deviation += math.Sqrt(squares/n-sum/n*sum/n) / float64(g.Width())
		}
		if t.Logf("%+v: %.3f", spec, deviation); deviation < 0.08 || deviation > 0.35 {
			t.Errorf("%+v: pixels have a standard deviation of %.3f", spec, deviation)
		}
	}
}
