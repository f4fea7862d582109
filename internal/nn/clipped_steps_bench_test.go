package nn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
)

// BenchmarkSteps compares a lot of 512 units in whole steps with an ordinary way there and back.
func BenchmarkSteps(b *testing.B) {
	const n = 512
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		net  *nntest.Network
	}{
		{"dense 794-128-1", nntest.NewNetwork(b, rng, n, nn.Vector(794), nn.Dense{Out: 128}, nn.LeakyReLU(leak),
			nn.Dense{Out: 1})},
		{"table 30-64-1", nntest.NewNetwork(b, rng, n, nn.Vector(30), nn.Dense{Out: 64}, nn.LeakyReLU(leak),
			nn.Dense{Out: 1})},
		{"dcgan 28x28", nntest.NewNetwork(b, rng, n, nn.Shape{Height: 28, Width: 28, Channels: 1},
			nn.Conv2D{Out: 16, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.LeakyReLU(leak),
			nn.Conv2D{Out: 32, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.LeakyReLU(leak),
			nn.Dense{Out: 1, Init: nn.DCGAN})},
	} {
		tn := c.net
		dout := make([]float32, n)
		for _, workers := range []int{1, 2} {
			tn.Net.SetWorkers(workers)
			b.Run(fmt.Sprintf("%s/backward/%d", c.name, workers), func(b *testing.B) {
				for b.Loop() {
					losses.Loss(nil).Gradient(dout, tn.Net.Forward(tn.X, n), true)
					tn.Net.Backward(dout, true, false)
				}
			})
			for _, records := range []int{1, 4} { // of a unit
				units := slices.Repeat([]int{records}, n/records)
				b.Run(fmt.Sprintf("%s/steps of %d/%d", c.name, records, workers), func(b *testing.B) {
					steps := newSteps(b, tn.Net, 1, 1<<20)
					for b.Loop() {
						addSteps(b, steps, tn.X, units, nil)
					}
				})
			}
		}
	}
}
