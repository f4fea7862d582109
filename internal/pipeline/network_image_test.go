package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A convolutional model that was saved and loaded draws the same images to the bit.
func TestSavedConvolutionDrawsTheSameImages(t *testing.T) {
	m, dir := smallConvolution(t), filepath.Join(t.TempDir(), "model")
	testkit.Must(t, m.Save(dir))
	loaded, err := loaded(dir)
	testkit.Must(t, err)
	if loaded.Generator.spec != m.Generator.spec {
		t.Errorf("%+v became %+v", m.Generator.spec, loaded.Generator.spec)
	}
	if !slices.Equal(sampled(m.Generator, 50, 4), sampled(loaded.Generator, 50, 4)) {
		t.Error("the loaded model makes other images")
	}
	if a, b := csvOf(t, m, 1100, anyClass, 3), csvOf(t, loaded, 1100, anyClass, 3); a != b {
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
		testkit.Must(t, m.Save(dir))
		raw := testkit.Read(t, filepath.Join(dir, modelFile))
		damaged := strings.Replace(string(raw), c.old, c.new, 1)
		if damaged == string(raw) {
			t.Fatalf("%s has no %s", raw, c.old)
		}
		write(t, dir, modelFile, damaged)
		if _, err := loaded(dir); err == nil || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%s as %s: error is %v, want %q", c.old, c.new, err, c.says)
		}
	}
}

// Another program computes a convolutional network from the file as
// docs/formats.md says.
func TestConvolutionFileIsAsDocumented(t *testing.T) {
	m, dir := smallConvolution(t), filepath.Join(t.TempDir(), "model")
	testkit.Must(t, m.Save(dir))
	file, err := safetensors.Load(filepath.Join(dir, weightsFile))
	testkit.Must(t, err)
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
