package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/idx"
)

// A model of images draws whole pixels that make images, on request of one class.
func TestAModelOfImages(t *testing.T) {
	m := modelOf(t, imageSchema(t, 28, 28, 1), GeneratorSpec{Noise: 16, Hidden: 64, Layers: 2, Classes: 2}, 0.5, 0.5)
	table, err := m.Sample(50, []Condition{{"label", "=", "b"}}, rand.New(rand.NewPCG(2, 2)))
	testkit.Must(t, err)
	x, err := idx.FromTable(table)
	testkit.Must(t, err)
	seen := map[byte]bool{}
	for i := range x.Len() {
		for j, p := range x.Image(i) {
			if table.Cells(i)[j+1] != float64(p) {
				t.Fatalf("pixel %d of image %d is %v, not a whole number from 0 to 255", j, i, table.Cells(i)[j+1])
			}
			seen[p] = true
		}
	}
	if x.Len() != 50 || x.Classes[0] != 1 || x.Classes[49] != 1 || len(seen) < 100 {
		t.Errorf("%d images of class %d with %d different pixels", x.Len(), x.Classes[0], len(seen))
	}
}

// Another program computes a convolutional network from the file as docs/formats-model.md describes.
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
