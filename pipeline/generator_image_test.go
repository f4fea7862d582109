package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/nn"
	"github.com/conclave-dp/conclave/partition"
)

// smallConvolution makes images of 8 x 12 pixels with 2 channels from 2 x 3.
func smallConvolution(t *testing.T) *Model {
	t.Helper()
	return modelOf(t, imageSchema(t, 8, 12, 2, bytePixel), GeneratorSpec{Kind: KindConvolution, Noise: 5, Hidden: 6, Layers: 2, Classes: 2}, 0.5, 0.5)
}

// sampled are n records of alternating classes.
func sampled(g *Generator, n int, seed uint64) []float32 {
	classes := make([]int, n)
	for i := range classes {
		classes[i] = i % 2
	}
	x := make([]float32, n*g.Width())
	g.Sample(x, classes, rand.New(rand.NewPCG(seed, 2)))
	return x
}

// Features are pixels row by row with the channels together, as the network's
// images are: what the last pixel of the first grid says comes out at the lower
// right, and a bias of a channel in that channel.
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
	for _, p := range []nn.Param{params[2], params[4]} {
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
	var want []int // an input pixel reaches 4 x 4 of the next, then each 4 x 4 again
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
	schema := imageSchema(t, 4, 8, 2, "kind: continuous, lower: 0, upper: 1")
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

// The first images are neither all alike nor all at the ends of the range, however
// large they are.
func TestFirstImagesAreSpread(t *testing.T) {
	for _, spec := range []GeneratorSpec{
		{Kind: KindConvolution, Noise: 32, Hidden: 32, Layers: 2, Classes: 2},
		{Kind: KindConvolution, Noise: 8, Hidden: 64, Layers: 4, Classes: 2},
		{Noise: 32, Hidden: 64, Layers: 2, Classes: 2},
	} {
		g := modelOf(t, imageSchema(t, 32, 32, 1, bytePixel), spec, 0.5, 0.5).Generator
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

// A convolutional model that was saved and loaded draws the same images to the bit.
func TestSavedConvolutionDrawsTheSameImages(t *testing.T) {
	m, dir := smallConvolution(t), filepath.Join(t.TempDir(), "model")
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Generator.spec != m.Generator.spec {
		t.Errorf("%+v became %+v", m.Generator.spec, loaded.Generator.spec)
	}
	if !slices.Equal(sampled(m.Generator, 50, 4), sampled(loaded.Generator, 50, 4)) {
		t.Error("the loaded model makes other images")
	}
	if a, b := csvOf(t, m, 1100, AnyClass, 3), csvOf(t, loaded, 1100, AnyClass, 3); a != b {
		t.Error("the loaded model draws other rows")
	}
}

func TestLoadModelRefusesDamagedConvolutions(t *testing.T) {
	m := smallConvolution(t)
	for _, c := range []struct{ old, new, says string }{
		{`"kind": "convolution"`, `"kind": "dense"`, "has shape"},
		{`"kind": "convolution",`, ``, "has shape"},
		{`"kind": "convolution"`, `"kind": "Convolution"`, "not known"},
		{`"hidden": 6`, `"hidden": 7`, "has shape"},
		{`"hidden": 6`, `"hidden": 60000`, "too large"},
		{`"layers": 2`, `"layers": 1`, "has shape"},
		{`"layers": 2`, `"layers": 3`, "halved 2 times"},
		{`"layers": 2`, `"layers": -2`, "layers -2"},
		{`"noise": 5`, `"noise": 50000000`, "too large"},
		{`"classes": 2`, `"classes": 3`, "has shape"},
	} {
		dir := filepath.Join(t.TempDir(), "model")
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, modelFile))
		if err != nil {
			t.Fatal(err)
		}
		damaged := strings.Replace(string(raw), c.old, c.new, 1)
		if damaged == string(raw) {
			t.Fatalf("%s has no %s", raw, c.old)
		}
		write(t, dir, modelFile, damaged)
		if _, err := LoadModel(dir); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s as %s: error is %v, want %q", c.old, c.new, err, c.says)
		}
	}
}

// Another program computes a convolutional network from the file as
// ARCHITECTURE.md says.
func TestConvolutionFileIsAsDocumented(t *testing.T) {
	m, dir := smallConvolution(t), filepath.Join(t.TempDir(), "model")
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	file, err := nn.LoadTensors(filepath.Join(dir, weightsFile))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 4))
	in := make([]float32, m.Generator.Net.In())
	for i := range in {
		in[i] = float32(rng.NormFloat64())
	}
	h, w, channels := 2, 3, []int{6, 3, 2}
	weight, bias := file.ByName["layer0.weight"], file.ByName["layer0.bias"]
	if !slices.Equal(weight.Shape, []int{h * w * channels[0], len(in)}) {
		t.Fatalf("the dense layer has shape %v", weight.Shape)
	}
	x := make([]float64, h*w*channels[0])
	for o := range x {
		x[o] = float64(bias.Data[o])
		for i, v := range in {
			x[o] += float64(weight.Data[o*len(in)+i]) * float64(v)
		}
	}
	for l, out := range channels[1:] {
		from := channels[l]
		weight, bias = file.ByName[fmt.Sprintf("layer%d.weight", l+1)], file.ByName[fmt.Sprintf("layer%d.bias", l+1)]
		if !slices.Equal(weight.Shape, []int{from, 4, 4, out}) || !slices.Equal(bias.Shape, []int{out}) {
			t.Fatalf("layer %d has shapes %v and %v", l+1, weight.Shape, bias.Shape)
		}
		y := make([]float64, 4*h*w*out)
		for i := range y {
			y[i] = float64(bias.Data[i%out])
		}
		for i, v := range x {
			row, column, c := i/from/w, i/from%w, i%from
			if v < 0 {
				v *= 0.2
			}
			for k := range 4 * 4 * out {
				r, q, o := 2*row-1+k/out/4, 2*column-1+k/out%4, k%out
				if r >= 0 && r < 2*h && q >= 0 && q < 2*w {
					y[(r*2*w+q)*out+o] += v * float64(weight.Data[c*4*4*out+k])
				}
			}
		}
		x, h, w = y, 2*h, 2*w
	}
	for i, got := range m.Generator.Net.Forward(in, 1) {
		if math.Abs(float64(got)-x[i]) > 1e-4*(1+math.Abs(x[i])) {
			t.Errorf("output %d is %v, from the file %v", i, got, x[i])
		}
	}
}

func TestGeneratorSpecCheck(t *testing.T) {
	spec := func(kind string, hidden, layers int) GeneratorSpec {
		return GeneratorSpec{Kind: kind, Noise: 4, Hidden: hidden, Layers: layers, Classes: 2}
	}
	table, err := partition.ParseSchema([]byte(testSchema))
	if err != nil {
		t.Fatal(err)
	}
	mnist := imageSchema(t, 28, 28, 1, bytePixel)
	for _, c := range []struct {
		schema *partition.Schema
		spec   GeneratorSpec
		says   string // nothing: it is as it should be
	}{
		{mnist, spec("", 8, 2), ""},
		{mnist, spec(KindDense, 8, 3), ""},
		{mnist, spec(KindConvolution, 8, 2), ""},
		{mnist, spec(KindConvolution, 1, 2), ""},
		{imageSchema(t, 8, 8, 3, "kind: binary"), spec(KindConvolution, 8, 1), ""},
		{table, spec(KindDense, 8, 2), ""},
		{table, spec(KindConvolution, 8, 2), "needs a schema of images (format: idx)"},
		{imageSchema(t, 8, 8, 1, bytePixel+", nullable: true"), spec(KindConvolution, 8, 2), "never empty: use kind dense"},
		{imageSchema(t, 8, 8, 1, "kind: categorical, categories: [x]"), spec(KindConvolution, 8, 2), "pixels that are numbers"},
		{mnist, spec("transformer", 8, 2), `kind "transformer" is not known to this version: use dense or convolution`},
		{mnist, spec(KindConvolution, 8, 3), "28 x 28, which can be halved 2 times: use kind dense, or set layers to at most 2"},
		{imageSchema(t, 27, 28, 1, bytePixel), spec(KindConvolution, 8, 1), "images of 27 x 28, which are not twice as large as others: use kind dense"},
		{mnist, spec(KindConvolution, 8, 0), "layers 0: set it to at least 1"},
		{mnist, spec(KindConvolution, 8, 65), "layers 65 is too large: set it to at most 64"},
		{mnist, spec("", -1, 2), "hidden -1: set it to at least 1"},
		{mnist, spec("", 1<<17, 2), "hidden 131072 is too large"},
		{mnist, spec(KindConvolution, 1<<16, 2), "weights is too large: set hidden or layers lower"},
		{mnist, spec(KindDense, 1<<16, 64), "weights is too large: set hidden or layers lower"},
		{mnist, GeneratorSpec{Noise: 0, Hidden: 1, Layers: 1, Classes: 1}, "noise 0"},
		{mnist, GeneratorSpec{Noise: 1, Hidden: 1, Layers: 1, Classes: 1 << 20}, "classes 1048576 is too large"},
	} {
		e := partition.NewEncoder(c.schema)
		err := c.spec.Check(e)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v for %s: error is %v, want %q", c.spec, c.schema.Name, err, c.says)
		}
		if _, built := NewGenerator(e, c.spec, rand.New(rand.NewPCG(1, 1))); (built == nil) != (err == nil) {
			t.Errorf("%+v for %s: error of Check is %v, of NewGenerator %v", c.spec, c.schema.Name, err, built)
		}
	}
}
