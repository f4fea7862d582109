package nn

import (
	"math/rand/v2"
	"testing"
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
	net := newTestNet(b, rng, n, Vector(42), Dense{Out: 128}, LeakyReLU(leak), Dense{Out: 128}, LeakyReLU(leak), Dense{Out: pixels})
	raw := net.net.Forward(net.x, n)
	x, grad := make([]float32, n*pixels), make([]float32, n*pixels)
	for name, heads := range map[string][]Head{"single": single, "joined": {{SigmoidHead, 0, pixels}}} {
		h, err := NewHeads(heads, pixels)
		if err != nil {
			b.Fatal(err)
		}
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
			net.net.Forward(net.x, n)
		}
	})
	b.Run("network backward", func(b *testing.B) {
		for b.Loop() {
			net.net.Backward(net.dout, true, false)
		}
	})
}
