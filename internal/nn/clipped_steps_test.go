package nn_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/losses"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
)

// Bits do not depend on processors, nor on how units are divided among calls.
func TestStepsDoNotDependOnWorkersOrCalls(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	for _, tn := range []*nntest.Network{dcgan(t, rng, 150), nntest.NewNetwork(t, rng, 400, nn.Vector(30),
		nn.Dense{Out: 64}, nn.LeakyReLU(0.2), nn.Dense{Out: 1})} {
		units := someUnits(rng, tn.N)
		var want []int64
		for _, workers := range []int{1, 2, 5, 0} {
			tn.Net.SetWorkers(workers)
			c := newSteps(t, tn.Net, 0.1, 1000)
			x, rest := tn.X, units
			for len(rest) > 0 {
				n := len(rest)
				if workers != 1 {
					n = rng.IntN(n + 1)
				}
				rows := 0
				for _, k := range rest[:n] {
					rows += k
				}
				addSteps(t, c, x[:rows*tn.Net.In()], rest[:n], nil)
				x, rest = x[rows*tn.Net.In():], rest[n:]
			}
			if want == nil {
				want = slices.Clone(c.Sum())
			}
			if !slices.Equal(c.Sum(), want) {
				t.Errorf("%v: other sums with %d workers", tn, workers)
			}
		}
	}
}

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

// Records that are units of their own add their clipped gradients, computed one by one, but for
// cutting.
func TestStepsAreThoseOfALoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 38))
	const bound = nn.MostSteps
	for _, tn := range criticNets(t, rng, 4) {
		in := tn.Net.In()
		for _, clip := range []float64{1e-3, 0.3, 1e3} {
			c := newSteps(t, tn.Net, clip, bound)
			addSteps(t, c, tn.X, slices.Repeat([]int{1}, tn.N), losses.Wasserstein)
			want := make([]float64, len(c.Sum()))
			for i := range tn.N {
				grads := gradsOf(tn.Net, tn.X[i*in:(i+1)*in], []float32{-1})
				scale := bound / math.Max(clip, normOf(grads))
				for j, v := range slices.Concat(grads...) {
					want[j] += scale * v
				}
			}
			for j, v := range c.Sum() { // each unit cuts off a step, and float32 computes to about a millionth
				if most := float64(tn.N) * (1 + 1e-5*bound); !(math.Abs(float64(v)-want[j]) <= most) {
					t.Errorf("%v, clip %v: sum %d is %d, want %v", tn, clip, j, v, want[j])
				}
			}
		}
	}
}

// The loss of a unit is the mean over its records.
func TestStepsOfAUnitAreOfItsMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(39, 40))
	const bound = nn.MostSteps
	for _, tn := range criticNets(t, rng, 3) {
		for _, loss := range []losses.Loss{nil, losses.Wasserstein} {
			scores := tn.Net.Forward(tn.X, tn.N)
			dout := make([]float32, tn.N)
			loss.Gradient(dout, scores, true)
			tn.Net.Backward(dout, true, false)
			grads := widenedGrads(tn.Net.Params(), 1)
			for _, p := range tn.Net.Params() {
				clear(p.Grad)
			}
			for _, clip := range []float64{normOf(grads) / 3, normOf(grads) * 3} {
				if clip < nn.LeastClip {
					continue
				}
				c := newSteps(t, tn.Net, clip, bound)
				addSteps(t, c, tn.X, []int{tn.N}, loss)
				scale, at := bound/math.Max(clip, normOf(grads)), 0
				for k, g := range grads {
					for i, v := range g {
						if got := float64(c.Sum()[at+i]); !(math.Abs(got-scale*v) <= 1+1e-4*bound) {
							t.Fatalf("%v: number %d of parameter %d is %v steps, want %v", tn, i, k, got, scale*v)
						}
					}
					at += len(g)
				}
			}
		}
	}
}

func TestStepsLeaveOutWhatIsNotFinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	tn := nntest.NewNetwork(t, rng, 9, nn.Vector(6), nn.Dense{Out: 20}, nn.LeakyReLU(0.2), nn.Dense{Out: 1})
	want := newSteps(t, tn.Net, 1, 1000)
	addSteps(t, want, tn.X[2*6:7*6], []int{1, 3, 1}, nil)
	tn.X[6], tn.X[7*6+2], tn.X[8*6] = float32(math.NaN()), float32(math.Inf(1)), 0
	got := newSteps(t, tn.Net, 1, 1000)
	addSteps(t, got, tn.X, []int{2, 1, 3, 1, 2}, nil)
	if !slices.Equal(got.Sum(), want.Sum()) || got.LeftOut() != 2 || want.LeftOut() != 0 {
		t.Errorf("%d units are left out, want 2, or they add something", got.LeftOut())
	}
	if got.Reset(); got.LeftOut() != 0 || slices.ContainsFunc(got.Sum(), func(v int64) bool { return v != 0 }) {
		t.Error("something is left after Reset")
	}
	addSteps(t, got, tn.X[2*6:7*6], []int{1, 3, 1}, nil)
	if !slices.Equal(got.Sum(), want.Sum()) {
		t.Error("another sum after Reset")
	}
}

// Sums go beyond what int32 holds.
func TestStepsOfManyUnits(t *testing.T) {
	tn := nntest.NewNetwork(t, rand.New(rand.NewPCG(43, 44)), 1, nn.Vector(1), nn.Dense{Out: 1})
	c, one := newSteps(t, tn.Net, 1e-3, nn.MostSteps), newSteps(t, tn.Net, 1e-3, nn.MostSteps)
	addSteps(t, one, []float32{1}, []int{1}, losses.Wasserstein)
	const n = 7000
	addSteps(t, c, slices.Repeat([]float32{1}, n), slices.Repeat([]int{1}, n), losses.Wasserstein)
	for i, v := range one.Sum() {
		if got := c.Sum()[i]; got != n*v || got > -math.MaxInt32 {
			t.Errorf("sum %d is %d, want %d times %d", i, got, n, v)
		}
	}
}

// Add takes the weights of the moment, wherever they are.
func TestStepsTakeNewWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 46))
	tn := dcgan(t, rng, 20)
	units := someUnits(rng, tn.N)
	c := newSteps(t, tn.Net, 1, 1000)
	addSteps(t, c, tn.X, units, nil)
	before := slices.Clone(c.Sum())
	tn.Net.Forward(tn.X, tn.N)
	tn.Net.Backward(tn.Dout, true, false)
	optimizer.NewSGD(tn.Net.Params(), 0.1).Step()
	fresh := newSteps(t, tn.Net, 1, 1000)
	addSteps(t, fresh, tn.X, units, nil)
	c.Reset()
	addSteps(t, c, tn.X, units, nil)
	if !slices.Equal(c.Sum(), fresh.Sum()) || slices.Equal(c.Sum(), before) {
		t.Error("gradients are not those of the new weights")
	}
}

func TestStepsDoNotAllocate(t *testing.T) {
	if nntest.Raced {
		t.Skip("the race detector makes pools forget, which allocates")
	}
	rng := rand.New(rand.NewPCG(47, 48))
	tn := dcgan(t, rng, 60)
	units := someUnits(rng, tn.N)
	tn.Net.SetWorkers(1)
	c := newSteps(t, tn.Net, 1, 1000)
	addSteps(t, c, tn.X, units, nil)
	if got := testing.AllocsPerRun(5, func() {
		addSteps(t, c, tn.X, units, nil)
		c.Sum()
		c.Reset()
	}); got != 0 {
		t.Errorf("%v allocations in a sum", got)
	}
}

func TestStepsRefuse(t *testing.T) {
	rng := rand.New(rand.NewPCG(49, 50))
	tn := nntest.NewNetwork(t, rng, 4, nn.Vector(3), nn.Dense{Out: 1})
	for _, clip := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-30, 1e39} {
		if _, err := nn.NewClippedSteps(tn.Net, clip, 10); err == nil {
			t.Errorf("norm %v was accepted", clip)
		}
	}
	for _, bound := range []int64{0, -1, nn.MostSteps + 1} {
		if _, err := nn.NewClippedSteps(tn.Net, 1, bound); err == nil {
			t.Errorf("bound %d was accepted", bound)
		}
	}
	block := nntest.NewNetwork(t, rng, 1, nn.Vector(3), nn.Residual{Body: []nn.Spec{nn.Dense{Out: 3}}})
	if _, err := nn.NewClippedSteps(block.Net, 1, 10); err == nil {
		t.Error("a residual block was accepted")
	}
	c := newSteps(t, tn.Net, 1, 10)
	for _, units := range [][]int{{}, {1, 1, 1}, {1, 1, 1, 2}, {4, 0}, {5, -1}, {math.MaxInt, math.MaxInt, 6},
		{math.MaxInt, 1}} {
		if err := c.Add(tn.X, units, nil, nil); err == nil {
			t.Errorf("units of %v records were accepted for 4 records", units)
		}
	}
	if err := c.Add(tn.X[:11], []int{1, 1, 1}, nil, nil); err == nil {
		t.Error("a part of a record was accepted")
	}
	if err := c.Add(nil, nil, nil, nil); err != nil {
		t.Error(err)
	}
	if slices.ContainsFunc(c.Sum(), func(v int64) bool { return v != 0 }) {
		t.Error("something was added")
	}
}
