package tree

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
)

// rounded rounds a table of expected numbers, by groups.
func rounded(expected [][]float64, rng *rand.Rand) [][]float64 {
	out := make([][]float64, len(expected))
	r := rounding{rng: rng}
	for s, group := range expected {
		out[s] = make([]float64, len(group))
		p := &parts{rounds: func(choice int32) { out[s][choice]++ }}
		for cell, e := range group {
			out[s][cell] = math.Floor(e)
			p.add(int32(cell), int32(cell), e-math.Floor(e))
		}
		r.add(p)
	}
	r.close()
	return out
}

// someExpected are expected numbers of groups of whole numbers of rows. Some cells are impossible.
func someExpected(groups, cells, most int, rng *rand.Rand) [][]float64 {
	all := make([][]float64, groups)
	for s := range all {
		all[s] = make([]float64, cells)
		sum := 0.0
		for cell := range all[s] {
			if rng.IntN(4) > 0 || cell == 0 {
				all[s][cell] = rng.ExpFloat64()
				sum += all[s][cell]
			}
		}
		n := float64(rng.IntN(most + 1))
		for cell := range all[s] {
			all[s][cell] *= n / sum
		}
	}
	return all
}

// Every number is rounded up or down, groups keep their rows, and sums over any first groups are near the expected
// ones: no more than the open groups are apart from them.
func TestRounding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		cells := rapid.IntRange(1, 8).Draw(rt, "cells")
		expected := someExpected(rapid.IntRange(1, 300).Draw(rt, "groups"), cells,
			rapid.IntRange(0, 9).Draw(rt, "rows"), rng)
		got := rounded(expected, rng)
		off := make([]float64, cells)
		for s, group := range expected {
			want, rows := 0.0, 0.0
			for cell, e := range group {
				n := got[s][cell]
				if n < math.Floor(e+almost) || n > math.Ceil(e-almost) {
					rt.Fatalf("group %d, cell %d: %v for %v", s, cell, n, e)
				}
				want, rows = want+e, rows+n
				if off[cell] += n - e; math.Abs(off[cell]) > mostOpen {
					rt.Fatalf("cell %d is off by %v in the first %d groups", cell, off[cell], s+1)
				}
			}
			if math.Abs(rows-want) > 1e-6 {
				rt.Fatalf("group %d has %v rows, want %v", s, rows, want)
			}
		}
	})
}

// Each cell has its expected number in the mean, and a sum over groups varies less than if groups were rounded by
// themselves.
func TestRoundingInTheMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const groups, cells, times = 200, 4, 2000
	expected := someExpected(groups, cells, 3, rng)
	sums, squares := [cells]float64{}, [cells]float64{}
	mean := make([][cells]float64, groups)
	for range times {
		total := [cells]float64{}
		for s, group := range rounded(expected, rng) {
			for cell, n := range group {
				mean[s][cell] += n / times
				total[cell] += n - expected[s][cell]
			}
		}
		for cell, off := range total {
			sums[cell] += off / times
			squares[cell] += off * off / times
		}
	}
	for cell := range cells {
		alone := 0.0
		for s := range groups {
			e := expected[s][cell]
			part := e - math.Floor(e)
			alone += part * (1 - part)
			// The deviation of the mean of numbers that are 0 or 1 more is at most 0.5/sqrt(times).
			if d := math.Abs(mean[s][cell] - e); d > 6*0.5/math.Sqrt(times) {
				t.Errorf("group %d, cell %d: %v in the mean, want %v", s, cell, mean[s][cell], e)
			}
		}
		if d := math.Abs(sums[cell]); d > 6*math.Sqrt(squares[cell]/times) {
			t.Errorf("cell %d is off by %v in the mean", cell, d)
		}
		if squares[cell] > alone/10 {
			t.Errorf("the sum of cell %d has the variance %v, that of separate groups %v", cell, squares[cell], alone)
		}
	}
}
