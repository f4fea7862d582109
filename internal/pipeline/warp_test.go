package pipeline

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func draws(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// backward is the transpose of forward: <W x, y> = <x, W' y> for any images.
func TestWarpBackwardIsTheTranspose(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	w := &warp{shape: partition.Image{Height: 9, Width: 12, Channels: 2}, strength: 3}
	const n = 5
	w.draw(n, rng)
	x, y := draws(rng, n*216), draws(rng, n*216)
	wx, wy := append([]float32{}, x...), append([]float32{}, y...)
	w.forward(wx)
	w.backward(wy)
	var a, b float64
	for i := range x {
		a += float64(wx[i]) * float64(y[i])
		b += float64(x[i]) * float64(wy[i])
	}
	if math.Abs(a-b) > 1e-4*math.Abs(a) {
		t.Errorf("<Wx, y> is %v, <x, W'y> is %v", a, b)
	}
}

// Maps by hand: none changes nothing; one pixel to the right takes each pixel from its
// right neighbour, and nothing from beyond the edge; half a pixel is the mean of two.
func TestWarpByHand(t *testing.T) {
	w := &warp{shape: partition.Image{Height: 1, Width: 4, Channels: 1}, strength: 1}
	for _, c := range []struct {
		shift float32
		want  []float32
	}{{0, []float32{1, 2, 4, 8}}, {1, []float32{2, 4, 8, 0}}, {-1, []float32{0, 1, 2, 4}},
		{0.5, []float32{1.5, 3, 6, 4}}, {9, make([]float32, 4)}} {
		w.maps = [][6]float32{{1, 0, c.shift, 0, 1, 0}}
		got := []float32{1, 2, 4, 8}
		w.forward(got)
		for i, v := range c.want {
			if math.Abs(float64(got[i]-v)) > 1e-6 {
				t.Errorf("shift %v: %v, want %v", c.shift, got, c.want)
				break
			}
		}
	}
	// A quarter turn of a square takes the right column from the top row.
	w.shape = partition.Image{Height: 3, Width: 3, Channels: 1}
	w.maps = [][6]float32{{0, 1, 0, -1, 0, 0}}
	got := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	w.forward(got)
	if want := [9]float32{7, 4, 1, 8, 5, 2, 9, 6, 3}; [9]float32(got) != want {
		t.Errorf("turned: %v, want %v", got, want)
	}
}

// Warped generators make images in [0, 1], the same for the same draws, and have the
// gradient of what they make.
func TestGeneratorsWithAWarp(t *testing.T) {
	spec := GeneratorSpec{Kind: KindDense, Noise: 3, Hidden: 6, Layers: 1, Classes: 2, Warp: 2}
	g := modelOf(t, imageSchema(t, 8, 8, 1), spec, 0.5, 0.5).Generator
	classes := []int{0, 1, 1}
	sample := func() []float32 {
		x := make([]float32, 3*64)
		g.Sample(x, classes, rand.New(rand.NewPCG(2, 2)))
		return x
	}
	x := sample()
	target := draws(rand.New(rand.NewPCG(3, 3)), len(x))
	loss := func(x []float32) (sum float64) {
		for i, v := range x {
			if v < 0 || v > 1.00001 {
				t.Fatalf("pixel %d is %v", i, v)
			}
			sum += float64(v) * float64(target[i])
		}
		return sum
	}
	loss(x)
	for _, p := range g.Net.Params() {
		clear(p.Grad)
	}
	sample()
	g.Backward(append([]float32{}, target...), x)
	for _, p := range g.Net.Params() {
		for _, i := range []int{0, len(p.Value) / 2, len(p.Value) - 1} {
			const h = 1e-2
			was := p.Value[i]
			p.Value[i] = was + h
			up := loss(sample())
			p.Value[i] = was - h
			down := loss(sample())
			p.Value[i] = was
			want := (up - down) / (2 * h)
			if got := float64(p.Grad[i]); math.Abs(got-want) > 1e-3*(1+math.Abs(want)) {
				t.Errorf("%s[%d]: gradient %v, want %v", p.Name, i, got, want)
			}
		}
	}
}

func TestWarpIsChecked(t *testing.T) {
	image := encode.New(imageSchema(t, 8, 8, 1))
	table := encode.New(partitiontest.Schema(t, testSchema))
	spec := GeneratorSpec{Noise: 3, Hidden: 6, Layers: 1, Classes: 2}
	for _, c := range []struct {
		e    *encode.Encoder
		warp float64
		ok   bool
	}{{image, 0, true}, {image, 1, true}, {image, 10, true}, {image, -1, false}, {image, 11, false},
		{image, math.NaN(), false}, {table, 0, true}, {table, 1, false}} {
		spec.Warp = c.warp
		if err := spec.Check(c.e); (err == nil) != c.ok {
			t.Errorf("warp %v: %v", c.warp, err)
		}
	}
}
