package nn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// gradsOf returns the gradients of one record, from a network that sees no other.
func gradsOf(net *Network, x, dout []float32) [][]float64 {
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

func clear32(params []Param) {
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
		net, in, out := tn.net, tn.net.In(), tn.net.Out()
		var norms []float64
		var grads [][][]float64
		for i := range tn.n {
			grads = append(grads, gradsOf(net, tn.x[i*in:(i+1)*in], tn.dout[i*out:(i+1)*out]))
			norms = append(norms, normOf(grads[i]))
		}
		if len(net.Params()) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(norms))
		for _, bound := range []float64{sorted[0] / 2, sorted[len(sorted)/2], 2 * sorted[len(sorted)-1]} {
			if bound < minBound {
				continue // a network whose rectifiers are all off
			}
			net.Forward(tn.x, tn.n)
			dout := slices.Clone(tn.dout)
			c, err := net.ClippedSum(tn.dout, bound)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(dout, tn.dout) {
				t.Fatalf("%v: the caller's gradient was changed", tn)
			}
			dense := true
			for _, s := range tn.specs {
				switch s.(type) {
				case Conv2D, ConvTranspose2D:
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

// contribution returns, in float64, the norm of what a record adds to all
// parameters by the definitions of the layers, from the rows that ClippedSum
// scaled.
func contribution(net *Network, i int) float64 {
	var sum float64
	for k := range net.stages {
		s := &net.stages[k]
		dy := s.dy
		if k == len(net.stages)-1 {
			dy = net.clip.last
		}
		d, x := widened(dy[i*s.width:(i+1)*s.width]), widened(net.input(k)[i*s.from:(i+1)*s.from])
		switch l := s.layer.(type) {
		case *dense:
			for _, v := range d {
				for _, u := range x {
					sum += v * v * u * u
				}
				sum += v * v
			}
		case *embedding:
			for _, v := range d[l.own:] {
				sum += v * v
			}
		case *convolution:
			sum += l.exactSquare(d, x)
		}
	}
	return math.Sqrt(sum)
}

func (c *convolution) exactSquare(dy, x []float64) (sum float64) {
	images, sides := x, dy
	if c.transposed {
		images, sides = dy, x
	}
	gw, gb := make([]float64, len(c.w)), make([]float64, len(c.b))
	for i, v := range dy {
		gb[i%len(gb)] += v
	}
	for p := range c.positions() {
		for k := range c.kernel {
			for l := range c.kernel {
				r, q := p/c.cols*c.stride-c.pad+k, p%c.cols*c.stride-c.pad+l
				if r < 0 || q < 0 || r >= c.of.Height || q >= c.of.Width {
					continue
				}
				for ch := range c.of.Channels {
					for o := range c.side {
						gw[((o*c.kernel+k)*c.kernel+l)*c.of.Channels+ch] += sides[p*c.side+o] * images[(r*c.of.Width+q)*c.of.Channels+ch]
					}
				}
			}
		}
	}
	for _, g := range [][]float64{gw, gb} {
		for _, v := range g {
			sum += v * v
		}
	}
	return sum
}

// No record adds more than the bound, also where rounding errors of norms go one
// way or all but cancel the norm: equal pixels, gradients of alternating sign,
// very large and very small numbers.
func TestNoRecordAddsMoreThanTheBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	nets := map[string]func() *testNet{
		"embedding": func() *testNet {
			return newTestNet(t, rng, 8, Vector(3), Embedding{Classes: 3, Width: 4}, Tanh, Dense{Out: 2})
		},
		"dense": func() *testNet {
			return newTestNet(t, rng, 8, Vector(300), Dense{Out: 50}, LeakyReLU(0.2), Dense{Out: 40})
		},
		"products of positions": func() *testNet {
			return newTestNet(t, rng, 8, Shape{6, 6, 40}, Conv2D{Out: 64, Kernel: 4, Stride: 2, Pad: 1})
		},
		"products of patches": func() *testNet { return newTestNet(t, rng, 8, Shape{12, 12, 1}, Conv2D{Out: 8, Kernel: 3, Stride: 1}) },
		"transposed": func() *testNet {
			return newTestNet(t, rng, 8, Shape{3, 3, 30}, ConvTranspose2D{Out: 20, Kernel: 4, Stride: 2, Pad: 1})
		},
	}
	for name, build := range nets {
		worst, least := 0.0, math.Inf(1)
		for round := range 14 {
			tn := build()
			kind := round % 7
			for i := range tn.x {
				if name == "embedding" && i%4 == 3 {
					continue
				}
				switch kind {
				case 6: // scaled gradients all but vanish
					tn.x[i] *= 1e37
				case 1: // equal pixels
					tn.x[i] = tn.x[0]
				case 2:
					tn.x[i] = 0.1
				case 3:
					tn.x[i] *= 1e-17
				case 4:
					tn.x[i] *= 1e10
				}
			}
			for i := range tn.dout {
				switch kind {
				case 1: // sums that cancel but for rounding
					tn.dout[i] = float32(1-2*(i/tn.net.Shape().Channels%2)) * tn.dout[i%tn.net.Shape().Channels]
				case 2:
					tn.dout[i] = 0.1
				case 3:
					tn.dout[i] *= 1e17
				case 4:
					tn.dout[i] *= 1e-10
				case 5:
					tn.dout[i] = tn.dout[i%tn.net.Shape().Channels]*float32(1-2*(i/tn.net.Shape().Channels%2)) + 1e-4*tn.dout[i]
				}
			}
			tn.net.Forward(tn.x, tn.n)
			first, err := tn.net.ClippedSum(tn.dout, 1e30)
			if err != nil {
				t.Fatal(err)
			}
			norms := slices.Clone(first.Norms)
			for _, bound := range []float64{norms[0] * 0.999999, norms[1] / 3, norms[2] * 1e-4, norms[3], 1e-6} {
				if !(bound >= minBound && bound < 1e38) {
					continue
				}
				c, err := tn.net.ClippedSum(tn.dout, bound)
				if err != nil {
					t.Fatal(err)
				}
				for i := range tn.n {
					got := contribution(tn.net, i)
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
		for _, tn := range []*testNet{
			newTestNet(t, rng, 7, Vector(30), Dense{Out: 20}, LeakyReLU(0.2), Dense{Out: 3}),
			newTestNet(t, rng, 7, Shape{6, 6, 3}, Conv2D{Out: 9, Kernel: 4, Stride: 2, Pad: 1}, LeakyReLU(0.2), Dense{Out: 1}),
			newTestNet(t, rng, 7, Shape{3, 3, 8}, ConvTranspose2D{Out: 4, Kernel: 4, Stride: 2, Pad: 1}, ReLU, Conv2D{Out: 1, Kernel: 3, Stride: 1}),
		} {
			in, out := tn.net.In(), tn.net.Out()
			sum := func(skip ...int) [][]float64 {
				var x, dout []float32
				for i := range tn.n {
					if !slices.Contains(skip, i) {
						x, dout = append(x, tn.x[i*in:(i+1)*in]...), append(dout, tn.dout[i*out:(i+1)*out]...)
					}
				}
				clear32(tn.net.Params())
				tn.net.Forward(x, tn.n-len(skip))
				if _, err := tn.net.ClippedSum(dout, 0.1); err != nil {
					t.Fatal(err)
				}
				return widenedGrads(tn.net.Params(), 1)
			}
			want := sum(0, 4, 6)
			for _, i := range []int{0, 4, 6} {
				spoil(tn.x[i*in:(i+1)*in], tn.dout[i*out:(i+1)*out])
			}
			clear32(tn.net.Params())
			tn.net.Forward(tn.x, tn.n)
			c, err := tn.net.ClippedSum(tn.dout, 0.1)
			if err != nil {
				t.Fatal(err)
			}
			if c.LeftOut != 3 || c.Scales[0] != 0 || c.Scales[1] == 0 || c.Norms[4] < 1e37 {
				t.Errorf("%s, %v: %+v", name, tn, c)
			}
			for k, p := range tn.net.Params() {
				closeNorm(t, name+": "+tn.String()+": "+p.Name, p.Grad, want[k], 1e-5, 1e-7)
			}
		}
	}
}

func TestClippedSumRefusesBounds(t *testing.T) {
	tn := dcgan(t, rand.New(rand.NewPCG(27, 28)), 3)
	tn.net.Forward(tn.x, 3)
	for _, bound := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-30, 1e39} {
		if _, err := tn.net.ClippedSum(tn.dout, bound); err == nil {
			t.Errorf("bound %v was accepted", bound)
		}
	}
	if norm := normOf(widenedGrads(tn.net.Params(), 1)); norm != 0 {
		t.Errorf("gradients of norm %v were added", norm)
	}
}

// Nor where scales, or scaled gradients, are so small that float32 has but a few
// numbers left for them.
func TestNoRecordAddsMoreThanTheBoundOfTheSmallestNumbers(t *testing.T) {
	const n, bound = 2000, 1e-6
	rng := rand.New(rand.NewPCG(29, 30))
	for _, tn := range []*testNet{
		newTestNet(t, rng, n, Vector(1), Dense{Out: 1}),
		newTestNet(t, rng, n, Shape{2, 2, 1}, Conv2D{Out: 1, Kernel: 1, Stride: 1}),
		newTestNet(t, rng, n, Shape{2, 1, 1}, ConvTranspose2D{Out: 1, Kernel: 1, Stride: 1}),
	} {
		for i := range tn.x {
			tn.x[i] *= 2e37
		}
		tn.net.Forward(tn.x, n)
		c, err := tn.net.ClippedSum(tn.dout, bound)
		if err != nil {
			t.Fatal(err)
		}
		kept := 0
		for i := range n {
			if c.Scales[i] > 0 {
				kept++
			}
			if got := contribution(tn.net, i); c.Scales[i] > 0 && got > bound {
				t.Fatalf("%v: record %d adds %v times the bound", tn.specs, i, got/bound)
			}
		}
		if kept < n/20 {
			t.Errorf("%v: only %d records were kept", tn.specs, kept)
		}
	}
}
