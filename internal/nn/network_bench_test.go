package nn_test

import (
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
)

// discriminator is DCGAN's for 28 x 28 pixels, with a batch of 64.
func discriminator(b *testing.B) *nntest.Network {
	return nntest.NewNetwork(b, rand.New(rand.NewPCG(1, 2)), 64, nn.Shape{Height: 28, Width: 28, Channels: 1},
		nn.Conv2D{Out: 64, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.LeakyReLU(0.2),
		nn.Conv2D{Out: 128, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.LeakyReLU(0.2),
		nn.Dense{Out: 1, Init: nn.DCGAN})
}

func imagesPerSecond(b *testing.B) {
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "images/s")
}

// BenchmarkDiscriminator is an ordinary step, and its parts.
func BenchmarkDiscriminator(b *testing.B) {
	b.Run("forward", func(b *testing.B) {
		tn := discriminator(b)
		for b.Loop() {
			tn.Net.Forward(tn.X, tn.N)
		}
		imagesPerSecond(b)
	})
	b.Run("forward+backward", func(b *testing.B) {
		tn := discriminator(b)
		for b.Loop() {
			tn.Net.Forward(tn.X, tn.N)
			tn.Net.Backward(tn.Dout, true, false)
		}
		imagesPerSecond(b)
	})
	b.Run("backward", func(b *testing.B) {
		tn := discriminator(b)
		tn.Net.Forward(tn.X, tn.N)
		for b.Loop() {
			tn.Net.Backward(tn.Dout, true, false)
		}
		imagesPerSecond(b)
	})
}

// BenchmarkDense measures the backward pass of a dense critic of images.
func BenchmarkDense(b *testing.B) {
	tn := nntest.NewNetwork(b, rand.New(rand.NewPCG(1, 2)), 256, nn.Vector(784), nn.Dense{Out: 128}, nn.LeakyReLU(leak),
		nn.Dense{Out: 1})
	tn.Net.Forward(tn.X, tn.N)
	for b.Loop() {
		tn.Net.Backward(tn.Dout, true, false)
	}
}

// BenchmarkGenerator is DCGAN's generator for 28 x 28 pixels and 10 classes.
func BenchmarkGenerator(b *testing.B) {
	tn := nntest.NewNetwork(b, rand.New(rand.NewPCG(1, 2)), 64, nn.Vector(100), nn.Embedding{Classes: 10, Width: 10},
		nn.ConvTranspose2D{Out: 128, Kernel: 7, Stride: 1, Init: nn.DCGAN}, nn.ReLU,
		nn.ConvTranspose2D{Out: 64, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.ReLU,
		nn.ConvTranspose2D{Out: 1, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.Tanh)
	for b.Loop() {
		tn.Net.Forward(tn.X, tn.N)
		tn.Net.Backward(tn.Dout, true, false)
	}
	imagesPerSecond(b)
}
