package nn_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/kernel/kerneltest"
	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// criticNets are networks of every layer with one output, of random sizes.
func criticNets(t *testing.T, rng *rand.Rand, rounds int) []*nntest.Network {
	nets := []*nntest.Network{dcgan(t, rng, 60)}
	for _, tn := range randomNets(t, rng, rounds) {
		nets = append(nets, nntest.NewNetwork(t, rng, tn.N, tn.In, append(slices.Clone(tn.Specs), nn.Dense{Out: 1})...))
	}
	return nets
}

// someUnits divides n records among units, most of them of one record.
func someUnits(rng *rand.Rand, n int) (units []int) {
	for n > 0 {
		k := 1
		if rng.IntN(3) == 0 {
			k = 1 + rng.IntN(min(n, 5))
		}
		units, n = append(units, k), n-k
	}
	return units
}

func newSteps(t testing.TB, net *nn.Network, clip float64, bound int64) *nn.ClippedSteps {
	t.Helper()
	c, err := nn.NewClippedSteps(net, clip, bound)
	testkit.Must(t, err)
	return c
}

func addSteps(t testing.TB, c *nn.ClippedSteps, x []float32, units []int, loss losses.Loss) {
	t.Helper()
	testkit.Must(t, c.Add(x, units, nil, loss))
}

// spoil makes records that no table has.
func spoil(rng *rand.Rand, tn *nntest.Network) {
	numbers := []float32{0, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30, -1e38, 1e-42, 1e-20}
	in := tn.Net.In()
	for i := range tn.N {
		row := tn.X[i*in : (i+1)*in]
		if _, ok := tn.Specs[0].(nn.Embedding); ok {
			row = row[:in-1]
		}
		v := numbers[rng.IntN(len(numbers))]
		switch rng.IntN(6) {
		case 0:
			row[rng.IntN(len(row))] = v
		case 1:
			for j := range row {
				row[j] *= v
			}
		case 2:
			for j := range row {
				row[j] = v
			}
		}
	}
}

// No unit moves the sum by more than bound, whatever its records, the loss and the
// weights, and what it adds does not depend on the units beside it.
func TestStepsOfAUnitAreBounded(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(31, 32))
		tight, kept, left := 0.0, 0, 0
		for round := range 3 {
			for _, tn := range criticNets(t, rng, 3) {
				spoil(rng, tn)
				if round == 2 { // gradients beyond what float32 holds, or all but
					for _, p := range tn.Net.Params() {
						vector.Scale(p.Value, []float32{1e3, 1e10, 1e-10, 1e-30}[rng.IntN(4)])
					}
				}
				factor := []float32{1, 1, 1e-40, 1e20, 1e37}[rng.IntN(5)]
				loss := func(grad, scores []float32, real bool) float64 {
					v := losses.Logistic(grad, scores, real)
					vector.Scale(grad, factor)
					return v
				}
				clip := []float64{nn.LeastClip, 1e-3, 1, 1e5, math.MaxFloat32}[rng.IntN(5)]
				bound := []int64{1, 3, 1000, nn.MostSteps}[rng.IntN(4)]
				units := someUnits(rng, tn.N)
				all, one := newSteps(t, tn.Net, clip, bound), newSteps(t, tn.Net, clip, bound)
				addSteps(t, all, tn.X, units, loss)
				want, out := make([]int64, len(all.Sum())), 0
				x := tn.X
				for _, k := range units {
					one.Reset()
					addSteps(t, one, x[:k*tn.Net.In()], []int{k}, loss)
					x = x[k*tn.Net.In():]
					var square uint64 // at most size of the network times 2^40
					for i, v := range one.Sum() {
						want[i] += v
						square += uint64(v * v)
					}
					if square > uint64(bound*bound) {
						t.Errorf("%v: a unit of %d records adds a norm of %v, the bound is %d",
							tn, k, math.Sqrt(float64(square)), bound)
					}
					if one.LeftOut() > 0 && square > 0 {
						t.Errorf("%v: a unit that is left out adds %d", tn, square)
					}
					if square > 0 {
						kept++
						if bound == nn.MostSteps {
							tight = math.Max(tight, math.Sqrt(float64(square))/float64(bound))
						}
					}
					out += one.LeftOut()
				}
				left += out
				if !slices.Equal(all.Sum(), want) || all.LeftOut() != out {
					t.Errorf("%v: the sum over units is not that of the units, or %d are left out, want %d",
						tn, all.LeftOut(), out)
				}
			}
		}
		t.Logf("%d units add something, at most %v of the bound; %d are left out", kept, tight, left)
		if tight < 0.999 || kept < 100 || left < 100 {
			t.Error("these units test little")
		}
	})
}

// Gradients just above the bound of which all numbers are all but whole steps, where
// a scale without room for roundings is too large.
func TestStepScaleAccountsForRoundings(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	for range 50000 {
		bound := 1 + rng.Int64N(1<<(1+rng.IntN(20)))
		v := float32(min(1e30, math.Exp(20*rng.NormFloat64())))
		g, acc := make([]float32, 2+rng.IntN(5)), make([]int32, 6)
		g[0] = v * float32(bound)
		for i := range g[1:] {
			g[i+1] = v * float32(rng.IntN(3)-1)
		}
		scale := nn.StepScale(vector.SumSquares64(g), nn.LeastClip, bound)
		vector.AddTruncated(acc[:len(g)], g, scale)
		var square int64
		for _, a := range acc {
			square += int64(a) * int64(a)
		}
		if square > bound*bound {
			t.Fatalf("%v times %v has %d steps squared, the bound is %d", g, scale, square, bound)
		}
	}
}
