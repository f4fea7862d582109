package projection_test

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/projection"
)

// Frequencies follow from the seed and have the spread that is asked for.
func TestFrequencies(t *testing.T) {
	a, err := projection.Frequencies(50, 101, 0.5, 7)
	testkit.Must(t, err)
	b, _ := projection.Frequencies(50, 101, 0.5, 7)
	var sum, squares float64
	for i, v := range a {
		if v != b[i] {
			t.Fatalf("number %d is %v and then %v", i, v, b[i])
		}
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(a))
	if mean, spread := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.03 || math.Abs(spread-0.5) > 0.03 {
		t.Errorf("mean %v and spread %v, want 0 and 0.5", mean, spread)
	}
	for _, bad := range []struct {
		features, count int
		spread          float64
	}{{0, 1, 1}, {1, 0, 1}, {1 << 20, 1 << 20, 1}, {1, 1, 0}, {1, 1, math.NaN()}, {1, 1, math.Inf(1)}} {
		if _, err := projection.Frequencies(bad.features, bad.count, bad.spread, 1); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
