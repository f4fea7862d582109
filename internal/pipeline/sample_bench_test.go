package pipeline

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkTrainImages makes 128 images of 28 x 28 pixels and their gradients.
func BenchmarkTrainImages(b *testing.B) {
	for _, kind := range []string{KindDense, KindConvolution} {
		b.Run(kind, func(b *testing.B) {
			s := imageSchema(b, 28, 28, 1)
			g := modelOf(b, s, GeneratorSpec{Kind: kind, Noise: 32, Hidden: 64, Layers: 2, Classes: 2}, 0.5,
				0.5).Generator
			x, grad, classes := make([]float32, 128*784), make([]float32, 128*784), make([]int, 128)
			rng := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				g.Sample(x, classes, rng)
				copy(grad, x)
				g.Backward(grad, x)
			}
		})
	}
}

// BenchmarkSampleImages draws 6,000 images of 28 x 28 pixels.
func BenchmarkSampleImages(b *testing.B) {
	for _, kind := range []string{KindDense, KindConvolution} {
		b.Run(kind, func(b *testing.B) {
			s := imageSchema(b, 28, 28, 1)
			m := modelOf(b, s, GeneratorSpec{Kind: kind, Noise: 32, Hidden: 64, Layers: 2, Classes: 2}, 0.5, 0.5)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.sample(6000, anyClass, rand.New(rand.NewPCG(1, 1))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
