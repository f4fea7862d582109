package output

import (
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// BenchmarkHeads compares the heads of 128 images of 784 pixels, one by one and
// as one, with the dense network before them.
func BenchmarkHeads(b *testing.B) {
	const n, pixels = 128, 784
	rng := rand.New(rand.NewPCG(1, 2))
	single := make([]Head, pixels)
	for i := range single {
		single[i] = Head{SigmoidHead, i, 1}
	}
	net := nntest.NewNetwork(b, rng, n, nn.Vector(42), nn.Dense{Out: 128}, nn.LeakyReLU(0.2), nn.Dense{Out: 128},
		nn.LeakyReLU(0.2), nn.Dense{Out: pixels})
	raw := net.Net.Forward(net.X, n)
	x, grad := make([]float32, n*pixels), make([]float32, n*pixels)
	for name, heads := range map[string][]Head{"single": single, "joined": {{SigmoidHead, 0, pixels}}} {
		h, err := NewHeads(heads, pixels)
		testkit.Must(b, err)
		b.Run(name+" forward", func(b *testing.B) {
			for b.Loop() {
				h.Forward(x, raw, n, rng)
			}
		})
		b.Run(name+" backward", func(b *testing.B) {
			for b.Loop() {
				clear(grad)
				h.Backward(grad, n)
			}
		})
	}
	b.Run("network forward", func(b *testing.B) {
		for b.Loop() {
			net.Net.Forward(net.X, n)
		}
	})
	b.Run("network backward", func(b *testing.B) {
		for b.Loop() {
			net.Net.Backward(net.Dout, true, false)
		}
	})
}
