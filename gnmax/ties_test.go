package gnmax

import (
	"fmt"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Equal counts win equally often, whatever their place, with and without noise. With noise that often makes counts
// equal, unequal ones win as often as the enumeration says, which gives every one of m equal counts 1/m.
func TestTiesHaveNoBias(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	src := NewSource()
	n := sampleSize / 5
	winners := func(winner func() (int, error)) []int64 {
		return draw(t, n, func() (int64, error) {
			place, err := winner()
			return int64(place), err
		})
	}
	bare := winners(func() (int, error) { return src.largest([]int64{5, 5, 1, 5, 5}) })
	for i, place := range bare {
		switch {
		case place == 2:
			t.Fatal("a smaller count won")
		case place > 2:
			bare[i]--
		}
	}
	chiSquareOf(t, bare, pmf{mass: []float64{1, 1, 1, 1}})

	sigma := variance(mustSigma(t, 1))
	for name, c := range map[string]struct {
		m     Mechanism
		noise pmf
	}{
		"gnmax": {testkit.Value(NewGNMax(1, false)), gaussianPMF(sigma, 14)},
		"lnmax": {testkit.Value(NewLNMax(2, false)), laplacePMF(0.5)},
	} {
		for _, counts := range [][]int64{{3, 3, 3}, {4, 3, 4, 3}, {3, 4}} {
			t.Run(fmt.Sprint(name, counts), func(t *testing.T) {
				places := winners(func() (int, error) {
					a, err := c.m.Answer(src, counts)
					return a.Winner, err
				})
				chiSquareOf(t, places, pmf{mass: winnersOf(counts, c.noise)})
			})
		}
	}
}
