package dpgan

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

func normals(n int, seed uint64) []float64 {
	x, rng := make([]float64, n), rand.New(rand.NewPCG(seed, 7))
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// Normal scores tilted by exp(a s) are normal again, around a: the factor is the wanted mean. The effective
// share is exp(-a^2), so 1.52 is the limit, or slightly more for a sample without the far tails.
func TestFactorsMatchTheMeanScore(t *testing.T) {
	scores := normals(5000, 1)
	for wanted, factor := range map[float64]float64{0: 0, 0.3: 0.3, -0.7: -0.7, 1: 1, 50: math.Sqrt(math.Log(10)),
		-50: -math.Sqrt(math.Log(10))} {
		if got := matching(scores, wanted); math.Abs(got-factor) > 0.2 {
			t.Errorf("mean %v: factor %v, want about %v", wanted, got, factor)
		}
	}
	if got := bounded(scores, 0.5); got != 0.5 {
		t.Errorf("a factor of 0.5 becomes %v", got)
	}
	if got := bounded(scores, 5); math.Abs(got-math.Sqrt(math.Log(10))) > 0.2 {
		t.Errorf("a factor of 5 becomes %v", got)
	}
	if same := []float64{3, 3, 3}; matching(same, 4) != 0 || bounded(same, 1) != 0 {
		t.Error("equal scores have a factor")
	}
}

// The scale and the offset of scores do not change the tilt, and enough records have weight for any scores.
func TestFactorsHaveTheScaleOfScores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.Float64Range(-3, 3), 2, 60).Draw(t, "scores")
		scores = append(scores, -3, 3) // so that they differ by more than rounding
		wanted, scale, shift := rapid.Float64Range(-2, 2).Draw(t, "mean"),
			rapid.Float64Range(0.01, 100).Draw(t, "scale"), rapid.Float64Range(-100, 100).Draw(t, "shift")
		moved := make([]float64, len(scores))
		for i, s := range scores {
			moved[i] = scale*s + shift
		}
		a, b := matching(scores, wanted), matching(moved, scale*wanted+shift)
		if math.Abs(a-b*scale) > 1e-3*(1+math.Abs(a)) {
			t.Fatalf("factor %v becomes %v, want it divided by %v", a, b, scale)
		}
		if share := effective(scores, a); share < leastEffective*0.999 {
			t.Fatalf("factor %v leaves %v of the records", a, share)
		}
	})
}
