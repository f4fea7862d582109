package main

import (
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// schema is the schema of the points. Its bounds are public.
const schema = `
name: gaussians
columns:
  - {name: x, kind: continuous, lower: -5, upper: 5}
  - {name: y, kind: continuous, lower: -5, upper: 5}
`

const (
	lower, upper = -5, 5
	side         = 5 // modes in a row
	spread       = 0.05
)

func encoder() (*encode.Encoder, error) {
	s, err := partition.ParseSchema([]byte(schema))
	if err != nil {
		return nil, err
	}
	return encode.New(s), nil
}

// centre is the row or column coordinate of a mode: -4, -2, 0, 2 or 4.
func centre(i int) float64 { return float64(2*i - (side - 1)) }

// points draws n points of the mixture, encoded, shape [n, 2].
func points(n int, rng *rand.Rand) []float32 {
	x := make([]float32, 0, 2*n)
	for range n {
		for range 2 {
			v := centre(rng.IntN(side)) + spread*rng.NormFloat64()
			x = append(x, float32((v-lower)/(upper-lower)))
		}
	}
	return x
}

// quality is Q of weighted encoded points: the sum over the modes of the share of points in the ellipse that holds
// 99% of the mode, each capped at 1/25. It is about 0.99 for points of the mixture; nil weights are equal.
func quality(x []float32, weights []float64) float64 {
	var share [side * side]float64
	var all float64
	reach := spread * math.Sqrt(-2*math.Log(0.01)) // the root of the 99% quantile of chi-square, 2 degrees
	for i := 0; i < len(x); i += 2 {
		w := 1.0
		if weights != nil {
			w = weights[i/2]
		}
		all += w
		mode, squares := 0, 0.0
		for _, v := range x[i : i+2] {
			v := lower + (upper-lower)*float64(v)
			k := min(side-1, max(0, int(math.Round((v+side-1)/2))))
			mode = mode*side + k
			squares += (v - centre(k)) * (v - centre(k))
		}
		if squares <= reach*reach {
			share[mode] += w
		}
	}
	var sum float64
	for _, s := range share {
		sum += math.Min(s/all, 1./(side*side))
	}
	return sum
}
