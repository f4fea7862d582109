package gnmax

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// selection is the mechanism by its definition: weights exp(u/scale).
func selection(scores []int64, scale float64) []float64 {
	probabilities, total := make([]float64, len(scores)), 0.0
	for i, u := range scores {
		probabilities[i] = math.Exp(float64(u-scores[0]) / scale)
		total += probabilities[i]
	}
	for i := range probabilities {
		probabilities[i] /= total
	}
	return probabilities
}

func TestSelectFollowsTheWeights(t *testing.T) {
	src := NewSource()
	for _, c := range []struct {
		epsilon     float64
		sensitivity int64
		scores      []int64
	}{
		{1, 1, []int64{0, 1, 2, 3}},
		{0.7, 5, []int64{-40, -37, -40, -12, -20}},
		{3, 1 << 20, []int64{5 << 20, 4 << 20, 4<<20 + 12345, 0}},
		{2, 3, []int64{1 << 60, 1<<60 - 2, 1<<60 - 9}}, // far from zero
		{0.5, 1, []int64{7, 7, 7}},
	} {
		m := testkit.Value(NewExponential(c.epsilon, c.sensitivity))
		chosen := draw(t, 200_000, func() (int64, error) {
			i, err := m.Select(src, c.scores)
			return int64(i), err
		})
		chiSquareOf(t, chosen, pmf{mass: selection(c.scores, 2*float64(c.sensitivity)/c.epsilon)})
	}
}

// If the others have no chance, the best is selected, over the whole range of scores. A single candidate is always
// selected.
func TestSelectTheBest(t *testing.T) {
	src := NewSource()
	for range 100 {
		for want, scores := range [][]int64{{5}, {-maxCount, maxCount}, {1, 2, 1000}} {
			if got, err := testkit.Value(NewExponential(1000, 1)).Select(src, scores); err != nil || got != want {
				t.Fatalf("of %v number %d was selected, %v", scores, got, err)
			}
		}
	}
}

func TestSelectionsAreRefused(t *testing.T) {
	src := NewSource()
	m := testkit.Value(NewExponential(1, 1))
	for _, scores := range [][]int64{nil, {}, {7, maxCount + 1}, {math.MinInt64}} {
		if i, err := m.Select(src, scores); !errors.Is(err, ErrScores) || i != 0 {
			t.Errorf("%v: %d, %v", scores, i, err)
		} else if strings.Contains(err.Error(), "7") {
			t.Errorf("the error %q shows a score", err)
		}
	}
	if _, err := (&ExponentialMechanism{}).Select(src, []int64{1, 2}); !errors.Is(err, ErrParameter) {
		t.Errorf("the zero mechanism: error is %v", err)
	}
	for value := range 256 { // must end
		if i, err := m.Select(NewSourceFrom(constant(value)), []int64{0, 50, 0}); err != nil && i != 0 {
			t.Errorf("%d comes with the error %v", i, err)
		}
	}
	if i, err := m.Select(NewSourceFrom(constant(0)), []int64{0, 50, 0}); !errors.Is(err, errBroken) || i != 0 {
		t.Errorf("from zeros: %d, %v", i, err)
	}
}

// Bounded range: the logarithms of the probability ratios of all candidates lie
// within epsilon of each other, although each of them alone may be anywhere
// between -epsilon and epsilon.
func TestSelectionHasBoundedRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, o := drawSelection(t)
		low, high := math.Inf(1), math.Inf(-1)
		for i := range o.p {
			ratio := math.Log(o.p[i] / o.q[i])
			low, high = min(low, ratio), max(high, ratio)
		}
		if high-low > e.Epsilon*(1+1e-12) {
			t.Fatalf("log ratios from %v to %v, wider than %v", low, high, e.Epsilon)
		}
	})
}
