package pate

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// All histograms of a few teachers: what the proof says, checked one by one.
func TestSmoothSensitivityHolds(t *testing.T) {
	const beta = .15
	for _, p := range []struct {
		total        int64
		classes      int
		sigma, order float64
	}{{30, 2, 4, 3}, {60, 2, 6, 4}, {24, 3, 3, 2}, {14, 4, 2.5, 2}, {10, 2, 20, 4}} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			c, err := newGNMaxCurve(p.sigma, p.order, p.classes)
			if err == nil {
				err = c.check(p.total)
			}
			if err != nil {
				t.Fatal(err)
			}
			histograms(p.total, p.classes, func(votes []int64) {
				logQ := gnmaxLogQ(votes, p.sigma)
				value, smooth, local := c.value(logQ), c.smooth(votes, beta), c.byDistance(votes, p.total)
				if bound := testkit.Value(GNMaxRDP(votes, p.sigma, p.order)); value < bound*(1-1e-12) {
					t.Errorf("%v: the curve is %v, the bound %v", votes, value, bound)
				}
				if smooth < local[0] || !slices.IsSorted(local) {
					t.Errorf("%v: smooth sensitivity %v, local ones %v", votes, smooth, local)
				}
				neighbours(votes, func(moved []int64) {
					next := gnmaxLogQ(moved, p.sigma)
					if next > c.above(logQ)+1e-12 || next < c.below(logQ)-1e-12 {
						t.Errorf("%v to %v: log q goes from %v to %v, beyond [%v, %v]", votes, moved, logQ, next,
							c.below(logQ), c.above(logQ))
					}
					if change := math.Abs(c.value(next) - value); change > local[0]*(1+1e-9)+1e-15 {
						t.Errorf("%v to %v: the curve changes by %v, the local sensitivity is %v", votes, moved, change,
							local[0])
					}
					if other := c.smooth(moved, beta); smooth > other*math.Exp(beta)*(1+1e-12) {
						t.Errorf("%v to %v: smooth sensitivity %v beside %v", votes, moved, smooth, other)
					}
					further := c.byDistance(moved, p.total)
					for d := range len(local) - 1 {
						if local[d] > further[d+1]*(1+1e-12) {
							t.Errorf("%v at distance %d: %v, %v at distance %d: %v", votes, d, local[d], moved, d+1,
								further[d+1])
						}
					}
				})
			})
		})
	}
}
