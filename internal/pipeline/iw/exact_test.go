package iw

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// The coefficients are found for every small table, even if a line search reaches the precision of the loss.
func TestTheMinimumIsFound(t *testing.T) {
	const clip = 1
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		width := 2 + rng.IntN(6)
		vectors := func(rows int) []float64 {
			v := make([]float64, rows*width)
			for i := range v {
				v[i] = rng.NormFloat64()
			}
			for i := 0; i < len(v); i += width {
				floats.Scale(clip/max(clip, floats.Norm(v[i:i+width], 2)), v[i:i+width])
			}
			return v
		}
		j := objective{
			lambda: math.Pow(10, -4*rng.Float64()), width: width,
			real: vectors(5 + rng.IntN(50)), synthetic: vectors(25),
		}
		beta, err := j.minimize(t.Context(), clip)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		gradient := make([]float64, width)
		if j.at(beta, gradient, nil); floats.Norm(gradient, 2) > 1e-6 {
			t.Fatalf("seed %d: the gradient is %v at %v", seed, gradient, beta)
		}
	}
}

func TestNoMinimumAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := objective{lambda: 1, width: 1, real: []float64{1}, synthetic: []float64{-1}}
	if _, err := j.minimize(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
