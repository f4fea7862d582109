package nn

import (
	"math/rand/v2"
	"testing"
)

// discriminator is DCGAN's for 28 x 28 pixels, with a batch of 64.
func discriminator(b *testing.B) *testNet {
	return newTestNet(b, rand.New(rand.NewPCG(1, 2)), 64, Shape{28, 28, 1},
		Conv2D{Out: 64, Kernel: 4, Stride: 2, Pad: 1, Init: DCGAN}, LeakyReLU(0.2),
		Conv2D{Out: 128, Kernel: 4, Stride: 2, Pad: 1, Init: DCGAN}, LeakyReLU(0.2),
		Dense{Out: 1, Init: DCGAN})
}

func imagesPerSecond(b *testing.B) {
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "images/s")
}

// BenchmarkDiscriminator compares an ordinary step's gradients, and those for the
// generator, with the clipped sum of DP-SGD.
func BenchmarkDiscriminator(b *testing.B) {
	b.Run("forward", func(b *testing.B) {
		tn := discriminator(b)
		for b.Loop() {
			tn.net.Forward(tn.x, tn.n)
		}
		imagesPerSecond(b)
	})
	b.Run("forward+backward", func(b *testing.B) {
		tn := discriminator(b)
		for b.Loop() {
			tn.net.Forward(tn.x, tn.n)
			tn.net.Backward(tn.dout, true, false)
		}
		imagesPerSecond(b)
	})
	b.Run("backward", func(b *testing.B) {
		tn := discriminator(b)
		tn.net.Forward(tn.x, tn.n)
		for b.Loop() {
			tn.net.Backward(tn.dout, true, false)
		}
		imagesPerSecond(b)
	})
	b.Run("clipped sum", func(b *testing.B) {
		tn := discriminator(b)
		tn.net.Forward(tn.x, tn.n)
		for b.Loop() {
			if _, err := tn.net.ClippedSum(tn.dout, 1); err != nil {
				b.Fatal(err)
			}
		}
		imagesPerSecond(b)
	})
}

// BenchmarkDense does so for a dense critic of images.
func BenchmarkDense(b *testing.B) {
	tn := newTestNet(b, rand.New(rand.NewPCG(1, 2)), 256, Vector(784), Dense{Out: 128}, LeakyReLU(leak), Dense{Out: 1})
	tn.net.Forward(tn.x, tn.n)
	b.Run("backward", func(b *testing.B) {
		for b.Loop() {
			tn.net.Backward(tn.dout, true, false)
		}
	})
	b.Run("clipped sum", func(b *testing.B) {
		for b.Loop() {
			if _, err := tn.net.ClippedSum(tn.dout, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkGenerator is DCGAN's generator for 28 x 28 pixels and 10 classes.
func BenchmarkGenerator(b *testing.B) {
	tn := newTestNet(b, rand.New(rand.NewPCG(1, 2)), 64, Vector(100), Embedding{Classes: 10, Width: 10},
		ConvTranspose2D{Out: 128, Kernel: 7, Stride: 1, Init: DCGAN}, ReLU,
		ConvTranspose2D{Out: 64, Kernel: 4, Stride: 2, Pad: 1, Init: DCGAN}, ReLU,
		ConvTranspose2D{Out: 1, Kernel: 4, Stride: 2, Pad: 1, Init: DCGAN}, Tanh)
	for b.Loop() {
		tn.net.Forward(tn.x, tn.n)
		tn.net.Backward(tn.dout, true, false)
	}
	imagesPerSecond(b)
}
