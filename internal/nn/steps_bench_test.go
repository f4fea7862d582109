package nn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkSteps compares a lot of 512 units of one record in whole steps with the
// sum of ClippedSum, which begins with Forward.
func BenchmarkSteps(b *testing.B) {
	const n = 512
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		net  *testNet
	}{
		{"dense 794-128-1", newTestNet(b, rng, n, Vector(794), Dense{Out: 128}, LeakyReLU(leak), Dense{Out: 1})},
		{"table 30-64-1", newTestNet(b, rng, n, Vector(30), Dense{Out: 64}, LeakyReLU(leak), Dense{Out: 1})},
		{"dcgan 28x28", newTestNet(b, rng, n, Shape{28, 28, 1},
			Conv2D{Out: 16, Kernel: 4, Stride: 2, Pad: 1, Init: DCGAN}, LeakyReLU(leak),
			Conv2D{Out: 32, Kernel: 4, Stride: 2, Pad: 1, Init: DCGAN}, LeakyReLU(leak), Dense{Out: 1, Init: DCGAN})},
	} {
		tn := c.net
		dout := make([]float32, n)
		for _, workers := range []int{1, 2} {
			tn.net.SetWorkers(workers)
			b.Run(fmt.Sprintf("%s/clipped sum/%d", c.name, workers), func(b *testing.B) {
				for b.Loop() {
					logisticGrad(dout, tn.net.Forward(tn.x, n), true)
					if _, err := tn.net.ClippedSum(dout, 1); err != nil {
						b.Fatal(err)
					}
				}
			})
			for _, records := range []int{1, 4} { // of a unit
				units := slices.Repeat([]int{records}, n/records)
				b.Run(fmt.Sprintf("%s/steps of %d/%d", c.name, records, workers), func(b *testing.B) {
					steps := newSteps(b, tn.net, 1, 1<<20)
					for b.Loop() {
						addSteps(b, steps, tn.x, units, nil)
					}
				})
			}
		}
	}
}
