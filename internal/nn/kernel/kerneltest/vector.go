package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"
)

// DrawVector makes a slice of n normal numbers at any place in memory, within
// guards, and a check that these are as before.
func DrawVector(t *rapid.T, name string, n int) ([]float32, func() error) {
	return DrawGuarded(t, name, n, func(rng *rand.Rand) float32 { return float32(rng.NormFloat64()) })
}

// DrawGuarded is DrawVector of other numbers.
func DrawGuarded[T int32 | float32](t *rapid.T, name string, n int, draw func(*rand.Rand) T) ([]T, func() error) {
	before := rapid.IntRange(1, 20).Draw(t, name+" offset")
	all := make([]T, before+n+20)
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, name+" seed"), 2))
	for i := range all {
		all[i] = 12345
		if i >= before && i < before+n {
			all[i] = draw(rng)
		}
	}
	return all[before : before+n : before+n], func() error {
		for i, v := range all {
			if (i < before || i >= before+n) && v != 12345 {
				return fmt.Errorf("element %d of %d of %s was overwritten", i-before, n, name)
			}
		}
		return nil
	}
}

// SameBits compares what becomes of a record alone with what becomes of it beside others,
// which may be longer.
func SameBits(t *rapid.T, what string, alone, beside []float32) {
	for i, v := range alone {
		if math.Float32bits(v) != math.Float32bits(beside[i]) {
			t.Fatalf("%s: number %d is %v alone and %v beside others", what, i, v, beside[i])
		}
	}
}
