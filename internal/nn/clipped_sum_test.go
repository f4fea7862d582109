package nn_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// gradsOf returns the gradients of one record, from a network that sees no other.
func gradsOf(net *nn.Network, x, dout []float32) [][]float64 {
	c := net.Clone()
	c.Forward(x, 1)
	c.Backward(dout, true, false)
	return widenedGrads(c.Params(), 1)
}

func normOf(grads [][]float64) float64 {
	var sum float64
	for _, g := range grads {
		for _, v := range g {
			sum += v * v
		}
	}
	return math.Sqrt(sum)
}

// closeNorm compares tensors by the norm of their difference.
func closeNorm(t *testing.T, what string, got []float32, want []float64, relative, floor float64) {
	t.Helper()
	var off, size float64
	for i, v := range want {
		off += (float64(got[i]) - v) * (float64(got[i]) - v)
		size += v * v
	}
	if !(math.Sqrt(off) <= relative*math.Sqrt(size)+floor) {
		t.Errorf("%s: off by %v of %v", what, math.Sqrt(off), math.Sqrt(size))
	}
}

func clear32(params []tensor.Param) {
	for _, p := range params {
		clear(p.Grad)
	}
}

// Norms, scales and sums against a loop over the records, whose gradients are
// computed one by one.
func TestClippedSumIsThatOfALoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	nets := randomNets(t, rng, 10)
	for range 3 {
		nets = append(nets, dcgan(t, rng, 19))
	}
	for _, tn := range nets {
		net, in, out := tn.Net, tn.Net.In(), tn.Net.Out()
		var norms []float64
		var grads [][][]float64
		for i := range tn.N {
			grads = append(grads, gradsOf(net, tn.X[i*in:(i+1)*in], tn.Dout[i*out:(i+1)*out]))
			norms = append(norms, normOf(grads[i]))
		}
		if len(net.Params()) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(norms))
		for _, bound := range []float64{sorted[0] / 2, sorted[len(sorted)/2], 2 * sorted[len(sorted)-1]} {
			if bound < nn.LeastClip {
				continue // a network whose rectifiers are all off
			}
			net.Forward(tn.X, tn.N)
			dout := slices.Clone(tn.Dout)
			c, err := net.ClippedSum(tn.Dout, bound)
			testkit.Must(t, err)
			if !slices.Equal(dout, tn.Dout) {
				t.Fatalf("%v: the caller's gradient was changed", tn)
			}
			dense := true
			for _, s := range tn.Specs {
				switch s.(type) {
				case nn.Conv2D, nn.ConvTranspose2D:
					dense = false
				}
			}
			want := widenedGrads(net.Params(), 0)
			for i, norm := range norms {
				if !(math.Abs(c.Norms[i]-norm) <= 1e-5*norm) {
					t.Errorf("%v: norm %d is %v, want %v", tn, i, c.Norms[i], norm)
				}
				scale := float64(c.Scales[i])
				ideal := math.Min(1, bound/norm)
				if scale*norm > bound*(1+1e-6) {
					t.Errorf("%v: record %d adds %v, the bound is %v", tn, i, scale*norm, bound)
				}
				if scale > ideal*(1+1e-6) || scale < ideal*(1-1e-2) || dense && scale < ideal*(1-1e-6) {
					t.Errorf("%v: record %d is scaled by %v, want %v", tn, i, scale, ideal)
				}
				for k, g := range grads[i] {
					for j, v := range g {
						want[k][j] += scale * v
					}
				}
			}
			for k, p := range net.Params() {
				closeNorm(t, tn.String()+": "+p.Name, p.Grad, want[k], 1e-5, 1e-6*bound)
			}
			clear32(net.Params())
		}
	}
}

// No record adds more than the bound, also where rounding errors of norms go one
// way or all but cancel the norm: equal pixels, gradients of alternating sign,
// very large and very small numbers.
func TestNoRecordAddsMoreThanTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	rng := rand.New(rand.NewPCG(23, 24))
	nets := map[string]func() *nntest.Network{
		"embedding": func() *nntest.Network {
			return nntest.NewNetwork(t, rng, 8, nn.Vector(3), nn.Embedding{Classes: 3, Width: 4},
				nn.Tanh, nn.Dense{Out: 2})
		},
		"dense": func() *nntest.Network {
			return nntest.NewNetwork(t, rng, 8, nn.Vector(300), nn.Dense{Out: 50}, nn.LeakyReLU(0.2), nn.Dense{Out: 40})
		},
		"products of positions": func() *nntest.Network {
			return nntest.NewNetwork(t, rng, 8, nn.Shape{Height: 6, Width: 6, Channels: 40},
				nn.Conv2D{Out: 64, Kernel: 4, Stride: 2, Pad: 1})
		},
		"products of patches": func() *nntest.Network {
			return nntest.NewNetwork(t, rng, 8, nn.Shape{Height: 12, Width: 12, Channels: 1},
				nn.Conv2D{Out: 8, Kernel: 3, Stride: 1})
		},
		"transposed": func() *nntest.Network {
			return nntest.NewNetwork(t, rng, 8, nn.Shape{Height: 3, Width: 3, Channels: 30},
				nn.ConvTranspose2D{Out: 20, Kernel: 4, Stride: 2, Pad: 1})
		},
	}
	for name, build := range nets {
		worst, least := 0.0, math.Inf(1)
		for round := range 14 {
			tn := build()
			kind := round % 7
			for i := range tn.X {
				if name == "embedding" && i%4 == 3 {
					continue
				}
				switch kind {
				case 6: // scaled gradients all but vanish
					tn.X[i] *= 1e37
				case 1: // equal pixels
					tn.X[i] = tn.X[0]
				case 2:
					tn.X[i] = 0.1
				case 3:
					tn.X[i] *= 1e-17
				case 4:
					tn.X[i] *= 1e10
				}
			}
			for i := range tn.Dout {
				switch kind {
				case 1: // sums that cancel but for rounding
					tn.Dout[i] = float32(1-2*(i/tn.Net.Shape().Channels%2)) * tn.Dout[i%tn.Net.Shape().Channels]
				case 2:
					tn.Dout[i] = 0.1
				case 3:
					tn.Dout[i] *= 1e17
				case 4:
					tn.Dout[i] *= 1e-10
				case 5:
					tn.Dout[i] = tn.Dout[i%tn.Net.Shape().Channels]*float32(1-2*(i/tn.Net.Shape().Channels%2)) +
						1e-4*tn.Dout[i]
				}
			}
			tn.Net.Forward(tn.X, tn.N)
			first, err := tn.Net.ClippedSum(tn.Dout, 1e30)
			testkit.Must(t, err)
			norms := slices.Clone(first.Norms)
			for _, bound := range []float64{norms[0] * 0.999999, norms[1] / 3, norms[2] * 1e-4, norms[3], 1e-6} {
				if !(bound >= nn.LeastClip && bound < 1e38) {
					continue
				}
				c, err := tn.Net.ClippedSum(tn.Dout, bound)
				testkit.Must(t, err)
				for i := range tn.N {
					got := nn.Contribution(tn.Net, i)
					worst = math.Max(worst, got/bound)
					if c.Scales[i] < 1 {
						least = math.Min(least, got/bound)
					}
					if got > bound {
						t.Errorf("%s, kind %d: record %d adds %v, %v times the bound", name, kind, i, got, got/bound)
					}
				}
			}
		}
		t.Logf("%s: clipped records add %v to %v times the bound", name, least, worst)
	}
}

// A record that is not finite adds nothing, is counted, and changes nothing for
// the others.
func TestClippedSumLeavesOutWhatIsNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, spoil := range map[string]func(x, dout []float32){
		"NaN record":        func(x, _ []float32) { x[3] = nan },
		"infinite record":   func(x, _ []float32) { x[3] = -inf },
		"NaN gradient":      func(_, dout []float32) { dout[0] = nan },
		"infinite gradient": func(_, dout []float32) { dout[0] = inf },
		"too large for float32": func(x, dout []float32) {
			x[0], x[1] = 1e38, -1e38
			for i := range dout {
				dout[i] *= 1e12
			}
		},
		"NaN record without gradient": func(x, dout []float32) { x[3] = nan; clear(dout) },
	} {
		rng := rand.New(rand.NewPCG(25, 26))
		for _, tn := range []*nntest.Network{
			nntest.NewNetwork(t, rng, 7, nn.Vector(30), nn.Dense{Out: 20}, nn.LeakyReLU(0.2), nn.Dense{Out: 3}),
			nntest.NewNetwork(t, rng, 7, nn.Shape{Height: 6, Width: 6, Channels: 3},
				nn.Conv2D{Out: 9, Kernel: 4, Stride: 2, Pad: 1}, nn.LeakyReLU(0.2), nn.Dense{Out: 1}),
			nntest.NewNetwork(t, rng, 7, nn.Shape{Height: 3, Width: 3, Channels: 8}, nn.ConvTranspose2D{Out: 4,
				Kernel: 4, Stride: 2, Pad: 1}, nn.ReLU, nn.Conv2D{Out: 1, Kernel: 3, Stride: 1}),
		} {
			in, out := tn.Net.In(), tn.Net.Out()
			sum := func(skip ...int) [][]float64 {
				var x, dout []float32
				for i := range tn.N {
					if !slices.Contains(skip, i) {
						x, dout = append(x, tn.X[i*in:(i+1)*in]...), append(dout, tn.Dout[i*out:(i+1)*out]...)
					}
				}
				clear32(tn.Net.Params())
				tn.Net.Forward(x, tn.N-len(skip))
				if _, err := tn.Net.ClippedSum(dout, 0.1); err != nil {
					t.Fatal(err)
				}
				return widenedGrads(tn.Net.Params(), 1)
			}
			want := sum(0, 4, 6)
			for _, i := range []int{0, 4, 6} {
				spoil(tn.X[i*in:(i+1)*in], tn.Dout[i*out:(i+1)*out])
			}
			clear32(tn.Net.Params())
			tn.Net.Forward(tn.X, tn.N)
			c, err := tn.Net.ClippedSum(tn.Dout, 0.1)
			testkit.Must(t, err)
			if c.LeftOut != 3 || c.Scales[0] != 0 || c.Scales[1] == 0 || c.Norms[4] < 1e37 {
				t.Errorf("%s, %v: %+v", name, tn, c)
			}
			for k, p := range tn.Net.Params() {
				closeNorm(t, name+": "+tn.String()+": "+p.Name, p.Grad, want[k], 1e-5, 1e-7)
			}
		}
	}
}

func TestClippedSumRefusesBounds(t *testing.T) {
	tn := dcgan(t, rand.New(rand.NewPCG(27, 28)), 3)
	tn.Net.Forward(tn.X, 3)
	for _, bound := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-30, 1e39} {
		if _, err := tn.Net.ClippedSum(tn.Dout, bound); err == nil {
			t.Errorf("bound %v was accepted", bound)
		}
	}
	if norm := normOf(widenedGrads(tn.Net.Params(), 1)); norm != 0 {
		t.Errorf("gradients of norm %v were added", norm)
	}
}

// Nor where scales, or scaled gradients, are so small that float32 has but a few
// numbers left for them.
func TestNoRecordAddsMoreThanTheBoundOfTheSmallestNumbers(t *testing.T) {
	const n, bound = 2000, 1e-6
	rng := rand.New(rand.NewPCG(29, 30))
	for _, tn := range []*nntest.Network{
		nntest.NewNetwork(t, rng, n, nn.Vector(1), nn.Dense{Out: 1}),
		nntest.NewNetwork(t, rng, n, nn.Shape{Height: 2, Width: 2, Channels: 1},
			nn.Conv2D{Out: 1, Kernel: 1, Stride: 1}),
		nntest.NewNetwork(t, rng, n, nn.Shape{Height: 2, Width: 1, Channels: 1},
			nn.ConvTranspose2D{Out: 1, Kernel: 1, Stride: 1}),
	} {
		for i := range tn.X {
			tn.X[i] *= 2e37
		}
		tn.Net.Forward(tn.X, n)
		c, err := tn.Net.ClippedSum(tn.Dout, bound)
		testkit.Must(t, err)
		kept := 0
		for i := range n {
			if c.Scales[i] > 0 {
				kept++
			}
			if got := nn.Contribution(tn.Net, i); c.Scales[i] > 0 && got > bound {
				t.Fatalf("%v: record %d adds %v times the bound", tn.Specs, i, got/bound)
			}
		}
		if kept < n/20 {
			t.Errorf("%v: only %d records were kept", tn.Specs, kept)
		}
	}
}
