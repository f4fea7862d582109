// Package idxtest has images for tests.
package idxtest

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

// Bars returns n images whose bright half shows their class.
func Bars(n int) *idx.Images {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	x := &idx.Images{Shape: partition.Image{Height: 4, Width: 4, Channels: 1}}
	for i := range n {
		for p := range 16 {
			v := rng.IntN(100)
			if p%4/2 == i%2 {
				v += 150
			}
			x.Pixels = append(x.Pixels, byte(v))
		}
		x.Classes = append(x.Classes, i%2)
	}
	return x
}
