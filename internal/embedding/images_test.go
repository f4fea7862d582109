package embedding_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/embedding"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const digits = `name: digits
label: y
format: idx
image: {height: 28, width: 28, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 784}
  - {name: y, kind: categorical, categories: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}
`

const side = 28

// extremes are images unlike photographs: one colour, checkerboards of squares, steps, single pixels, frames and noise.
func extremes() (all [][]float32) {
	image := func(of func(y, x int) float32) {
		to := make([]float32, side*side)
		for i := range to {
			to[i] = of(i/side, i%side)
		}
		all = append(all, to)
	}
	is := func(yes bool) float32 {
		if yes {
			return 1
		}
		return 0
	}
	for _, v := range []float32{0, 0x1p-126, 1.0 / 255, 0.5, 1} {
		image(func(int, int) float32 { return v })
	}
	for _, size := range []int{1, 2, 7, 14} {
		image(func(y, x int) float32 { return is((y/size+x/size)%2 == 0) })
	}
	for k := range side {
		image(func(y, _ int) float32 { return is(y < k) })
		image(func(_, x int) float32 { return is(x == k) })
		image(func(y, x int) float32 { return is(y == k && x == (5*k)%side) })
		image(func(y, x int) float32 { return is(min(y, x, side-1-y, side-1-x) == k/2) })
	}
	image(func(y, _ int) float32 { return float32(y) / (side - 1) })
	rng := rand.New(rand.NewPCG(5, 5))
	for range 50 {
		image(func(int, int) float32 { return rng.Float32() })
		image(func(int, int) float32 { return float32(rng.IntN(2)) })
	}
	return all
}

// Every image has a vector of the norm that is promised for all: none is longer, and nothing
// of the promise is given away.
func TestNormOfImages(t *testing.T) {
	e := encoder(t, digits)
	for _, spread := range []float64{1e-3, 0.1, 10} {
		f, err := embedding.New(e, 10, []embedding.Part{
			{Kind: embedding.Ones, Weight: 0.1},
			{Kind: embedding.Fourier, Weight: 1, Count: 200, Spread: spread, Seed: 1},
		})
		testkit.Must(t, err)
		for i, x := range extremes() {
			if n := norm(t, f, x); n > f.Norm()*(1+1e-6) || n < f.Norm()*(1-1e-5) {
				t.Errorf("spread %v: image %d has a vector of norm %v, want %v", spread, i, n, f.Norm())
			}
		}
	}
}

// No image has a longer vector of patches than is promised, whatever its numbers are, and one of one colour has one
// that is as long.
func TestNormOfPatches(t *testing.T) {
	e := encoder(t, digits)
	for _, spread := range []float64{1e-3, 1, 10} {
		f, err := embedding.New(e, 10,
			[]embedding.Part{{Kind: embedding.Patches, Weight: 0.7, Count: 20, Spread: spread, Seed: 1}})
		testkit.Must(t, err)
		if f.Count() != 2*49*20 || f.Norm() != 0.7 {
			t.Errorf("%d numbers of norm %v", f.Count(), f.Norm())
		}
		all := extremes()
		for _, v := range []float32{-1e30, 1e30, float32(math.NaN()), float32(math.Inf(1))} {
			x := slices.Clone(all[7])
			for i := range 400 {
				x[i] = v
			}
			all = append(all, x)
		}
		for i, x := range all {
			if n := norm(t, f, x); !(n <= f.Norm()*(1+1e-6)) || i < 5 && n < f.Norm()*(1-1e-5) {
				t.Errorf("spread %v: image %d has a vector of norm %v, want %v", spread, i, n, f.Norm())
			}
		}
	}
}

// A pixel changes the numbers of its cell and of those whose squares overlap it, and no others.
func TestPatchesSayWhere(t *testing.T) {
	e := encoder(t, digits)
	f, err := embedding.New(e, 1, []embedding.Part{{Kind: embedding.Patches, Weight: 1, Count: 3, Spread: 1, Seed: 1}})
	testkit.Must(t, err)
	sum := func(x []float32) []float64 {
		to := make([]float64, f.Count())
		f.Sum(to, x, []int{0})
		return to
	}
	x := make([]float32, side*side)
	before := sum(x)
	x[side+26] = 1 // at the right of the first row of cells
	for i, v := range sum(x) {
		if cell := i / 6; (v != before[i]) != (cell == 6) {
			t.Errorf("number %d, of cell %d: %v, and %v before", i, cell, v, before[i])
		}
	}
}

// Patches are of images with room for them, of one or several channels.
func TestShapesOfPatches(t *testing.T) {
	part := []embedding.Part{{Kind: embedding.Ones, Weight: 1},
		{Kind: embedding.Patches, Weight: 1, Count: 2, Spread: 1, Seed: 1}}
	for _, c := range []struct {
		height, width, channels, want int
	}{{5, 5, 1, 1 + 4}, {8, 8, 1, 1 + 4*4}, {6, 20, 3, 1 + 4*7}, {32, 32, 3, 1 + 4*49}} {
		e := encoder(t, fmt.Sprintf(`name: images
label: y
format: idx
image: {height: %d, width: %d, channels: %d}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: %d}
  - {name: y, kind: categorical, categories: [a, b]}
`, c.height, c.width, c.channels, c.height*c.width*c.channels))
		f, err := embedding.New(e, 2, part)
		testkit.Must(t, err)
		if f.Count() != c.want {
			t.Errorf("%+v: %d numbers", c, f.Count())
		}
	}
	small := strings.Replace(digits, "28, width: 28", "4, width: 196", 1)
	if _, err := embedding.New(encoder(t, small), 10, part); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("patches of an image of 4 rows: %v", err)
	}
	if _, err := embedding.New(encoder(t, mixed), 3, part); err == nil || !strings.Contains(err.Error(), "of images") {
		t.Errorf("patches of a table: %v", err)
	}
}

// The student's gradient is the derivative by pixels, inside their range and at its ends.
func TestSlopeOfImages(t *testing.T) {
	e := encoder(t, digits)
	f, err := embedding.New(e, 2, []embedding.Part{
		{Kind: embedding.Fourier, Weight: 1, Count: 100, Spread: 0.1, Seed: 1},
		{Kind: embedding.Patches, Weight: 1, Count: 10, Spread: 1, Seed: 2},
	})
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(6, 6))
	weights := make([]float32, 2*f.Count())
	for i := range weights {
		weights[i] = float32(rng.NormFloat64())
	}
	value := func(x []float32, class int) (sum float64) {
		of := make([]float64, 2*f.Count())
		f.Sum(of, x, []int{class})
		for i, v := range of {
			sum += v * float64(weights[i])
		}
		return sum
	}
	for class := range 2 {
		x := make([]float32, side*side)
		for i := range x {
			x[i] = 0.1 + 0.8*rng.Float32()
		}
		dx := make([]float32, len(x))
		f.Slope(dx, weights, x, []int{class})
		const step = 0.02
		for i := 0; i < len(x); i += 13 {
			at := x[i]
			x[i] = at + step
			up := value(x, class)
			x[i] = at - step
			down := value(x, class)
			x[i] = at
			if got, want := float64(dx[i]), (up-down)/(2*step); math.Abs(got-want) > 2e-3 {
				t.Errorf("class %d, pixel %d: slope %v, want %v", class, i, got, want)
			}
		}
	}
}

// BenchmarkImages takes 200 images, adds up their vectors and finds their slopes: a step of a
// student but for its generator.
func BenchmarkImages(b *testing.B) {
	e := encoder(b, digits)
	f, err := embedding.New(e, 10,
		[]embedding.Part{{Kind: embedding.Fourier, Weight: 1, Count: 1000, Spread: 0.1, Seed: 1},
			{Kind: embedding.Patches, Weight: 1, Count: 64, Spread: 1, Seed: 1}})
	testkit.Must(b, err)
	rng := rand.New(rand.NewPCG(7, 7))
	const n = 200
	x, classes := make([]float32, n*e.Width()), make([]int, n)
	for i := range x {
		x[i] = rng.Float32()
	}
	for i := range classes {
		classes[i] = i % 10
	}
	dx, weights, sum := make([]float32, len(x)), make([]float32, 10*f.Count()), make([]float64, 10*f.Count())
	for i := range weights {
		weights[i] = rng.Float32()
	}
	batch := f.Batch()
	for b.Loop() {
		batch.Take(x, classes)
		batch.Sum(sum)
		batch.Slope(dx, weights)
	}
}
