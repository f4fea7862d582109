package nn_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
	"github.com/conclave-dp/conclave/internal/nn/optimizer"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestNetworkAgreesWithDefinitions(t *testing.T) {
	for _, tn := range allNets(t, rand.New(rand.NewPCG(1, 2)), 20) {
		got, params := tn.Net.Forward(tn.X, tn.N), nntest.WidenedParams(tn.Net.Params())
		var want []float64
		for i := range tn.N {
			want = append(want, nntest.Forward(t, tn.In, tn.Specs, params,
				nntest.Widened(tn.X[i*tn.Net.In():(i+1)*tn.Net.In()]))...)
		}
		nntest.Close(t, tn.String(), got, want, 1e-4)
	}
}

func TestNetworkGradientsAgreeWithCentralDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, tn := range allNets(t, rng, 12) {
		tn.Net.Forward(tn.X, tn.N)
		dx := tn.Net.Backward(tn.Dout, true, true)
		params, x := nntest.WidenedParams(tn.Net.Params()), nntest.Widened(tn.X)
		for k, p := range tn.Net.Params() {
			all := func() float64 { return tn.Loss(t, params, x, 0, tn.N) }
			checkSome(t, rng, tn.String()+": "+p.Name, p.Grad, params[k], all)
		}
		for i := range tn.N {
			in := tn.Net.In()
			own := in // the class has no gradient
			if _, ok := tn.Specs[0].(nn.Embedding); ok {
				own--
			}
			one := func() float64 { return tn.Loss(t, params, x, i, i+1) }
			checkSome(t, rng, tn.String()+": input", dx[i*in:i*in+own], x[i*in:i*in+own], one)
		}
	}
}

// checkSome compares up to 25 numbers of a gradient by x with differences of f.
func checkSome(t *testing.T, rng *rand.Rand, what string, grad []float32, x []float64, f func() float64) {
	t.Helper()
	var got []float32
	var want []float64
	for _, i := range rng.Perm(len(x))[:min(25, len(x))] {
		got, want = append(got, grad[i]), append(want, nntest.Difference(x, i, f))
	}
	nntest.Close(t, what, got, want, 1e-3)
}

// Backward adds to parameters' gradients, and only when it is asked to.
func TestNetworkBackwardAddsToGradients(t *testing.T) {
	for _, tn := range allNets(t, rand.New(rand.NewPCG(5, 6)), 3) {
		tn.Net.Forward(tn.X, tn.N)
		dx := slices.Clone(tn.Net.Backward(tn.Dout, false, true))
		for _, p := range tn.Net.Params() {
			if slices.ContainsFunc(p.Grad, func(g float32) bool { return g != 0 }) {
				t.Fatalf("%v: %s has a gradient", tn, p.Name)
			}
		}
		if again := tn.Net.Backward(tn.Dout, true, true); !slices.Equal(dx, again) {
			t.Errorf("%v: the input gradient depends on the parameters' being wanted", tn)
		}
		once := widenedGrads(tn.Net.Params(), 2)
		tn.Net.Backward(tn.Dout, true, false)
		for k, p := range tn.Net.Params() {
			nntest.Close(t, tn.String()+": "+p.Name, p.Grad, once[k], 1e-5)
		}
	}
}

func widenedGrads(params []tensor.Param, times float64) [][]float64 {
	var gs [][]float64
	for _, p := range params {
		gs = append(gs, nntest.Mapped(nntest.Widened(p.Grad), func(v float64) float64 { return times * v }))
	}
	return gs
}

// dcgan is a small discriminator with every kind of work that is split up.
func dcgan(t testing.TB, rng *rand.Rand, n int) *nntest.Network {
	return nntest.NewNetwork(t, rng, n, nn.Shape{Height: 14, Width: 14, Channels: 1},
		nn.Embedding{Classes: 10, Width: 1},
		nn.Conv2D{Out: 8, Kernel: 4, Stride: 2, Pad: 1, Init: nn.DCGAN}, nn.LeakyReLU(0.2),
		nn.ConvTranspose2D{Out: 6, Kernel: 4, Stride: 2, Pad: 1}, nn.Tanh,
		nn.Conv2D{Out: 20, Kernel: 5, Stride: 3, Pad: 2}, nn.LeakyReLU(0.2), nn.Dense{Out: 1})
}

func TestNetworkIsTheSameWhateverGOMAXPROCS(t *testing.T) {
	train := func(procs, limit int) (bits []float32) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		tn := dcgan(t, rand.New(rand.NewPCG(7, 8)), 70)
		tn.Net.SetWorkers(limit)
		opt := optimizer.NewAdam(tn.Net.Params(), 0.01)
		for range 3 {
			bits = append(bits, tn.Net.Forward(tn.X, tn.N)...)
			bits = append(bits, tn.Net.Backward(tn.Dout, true, true)...)
			opt.Step()
		}
		for _, p := range tn.Net.Params() {
			bits = append(bits, p.Value...)
		}
		return bits
	}
	one := train(1, 0)
	for name, other := range map[string][]float32{"four": train(4, 0), "four limited to two": train(4, 2)} {
		if !slices.Equal(one, other) {
			t.Errorf("one and %s processors gave different bits", name)
		}
	}
}

func TestNetworkDoesNotAllocate(t *testing.T) {
	if nntest.Raced {
		t.Skip("the race detector makes pools forget, which allocates")
	}
	tn := dcgan(t, rand.New(rand.NewPCG(9, 10)), 40)
	for name, opt := range map[string]optimizer.Optimizer{
		"sgd": optimizer.NewSGD(tn.Net.Params(), 0.01), "adam": optimizer.NewAdam(tn.Net.Params(), 0.01),
	} {
		average := nn.NewAverage(tn.Net, 0.99)
		if got := testing.AllocsPerRun(5, func() {
			tn.Net.Forward(tn.X, tn.N)
			tn.Net.Backward(tn.Dout, true, true)
			opt.Step()
			average.Update(tn.Net)
		}); got != 0 {
			t.Errorf("%s: %v allocations in a step", name, got)
		}
	}
}

func TestNetworkCloneIsIndependent(t *testing.T) {
	for _, tn := range []*nntest.Network{
		dcgan(t, rand.New(rand.NewPCG(11, 12)), 20),
		nntest.NewNetwork(t, rand.New(rand.NewPCG(11, 13)), 20, nn.Shape{Height: 4, Width: 4, Channels: 2},
			nn.Residual{Body: []nn.Spec{nn.Conv2D{Out: 3, Kernel: 3, Stride: 2, Pad: 1}},
				Shortcut: []nn.Spec{nn.Conv2D{Out: 3, Kernel: 1, Stride: 2}}}, nn.Pixel{}, nn.Dense{Out: 1}),
	} {
		testClone(t, tn)
	}
}

func testClone(t *testing.T, tn *nntest.Network) {
	t.Helper()
	before := slices.Clone(tn.Net.Forward(tn.X, tn.N))
	clone := tn.Net.Clone()
	if !slices.Equal(before, clone.Forward(tn.X, tn.N)) {
		t.Fatal("the clone computes something else")
	}
	clone.Backward(tn.Dout, true, true)
	optimizer.NewSGD(clone.Params(), 0.1).Step()
	for i, p := range tn.Net.Params() {
		if slices.ContainsFunc(p.Grad, func(g float32) bool { return g != 0 }) {
			t.Errorf("%s has a gradient of the clone", p.Name)
		}
		if c := clone.Params()[i]; c.Name != p.Name || !slices.Equal(c.Shape, p.Shape) ||
			slices.Equal(c.Value, p.Value) {
			t.Errorf("%s: the clone's is %s %v, or it did not learn", p.Name, c.Name, c.Shape)
		}
	}
	if !slices.Equal(before, tn.Net.Forward(tn.X, tn.N)) {
		t.Error("training the clone changed the network")
	}
}

// A network that has worked and its clone may be used at the same time.
func TestNetworkAndCloneAtTheSameTime(t *testing.T) {
	tn := dcgan(t, rand.New(rand.NewPCG(19, 20)), 70)
	step := func(net *nn.Network) (bits []float32) {
		net.Forward(tn.X, tn.N)
		bits = append(bits, net.Backward(tn.Dout, true, true)...)
		for _, p := range net.Params() {
			bits = append(bits, p.Grad...)
			clear(p.Grad)
		}
		return bits
	}
	want := step(tn.Net)
	var wait sync.WaitGroup
	for i, net := range []*nn.Network{tn.Net, tn.Net.Clone(), tn.Net.Clone()} {
		wait.Go(func() {
			for range 10 {
				if !slices.Equal(step(net), want) {
					t.Errorf("network %d computes something else beside others", i)
					return
				}
			}
		})
	}
	wait.Wait()
}

func TestNetworkTakesAnEmptyBatch(t *testing.T) {
	tn := dcgan(t, rand.New(rand.NewPCG(13, 14)), 0)
	if y := tn.Net.Forward(nil, 0); len(y) != 0 {
		t.Errorf("outputs %v", y)
	}
	tn.Net.Backward(nil, true, true)
}

// Large products are split over processors; nothing may depend on how many.
func TestLargeDenseNetworkIsTheSameWhateverTheWorkers(t *testing.T) {
	const n = 100
	run := func(workers int) (y, dx, dw []float32) {
		rng := rand.New(rand.NewPCG(15, 16))
		net, err := nn.NewNetwork(rng, nn.Vector(784), nn.Dense{Out: 300}, nn.LeakyReLU(leak),
			nn.Dense{Out: 784}, nn.Tanh)
		testkit.Must(t, err)
		net.SetWorkers(workers)
		y = net.Forward(nntest.Normals(rng, n*784), n)
		dx = net.Backward(nntest.Normals(rng, n*784), true, true)
		return y, dx, net.Params()[0].Grad
	}
	y, dx, dw := run(1)
	for _, workers := range []int{2, 3, 7} {
		y2, dx2, dw2 := run(workers)
		if !slices.Equal(y, y2) || !slices.Equal(dx, dx2) || !slices.Equal(dw, dw2) {
			t.Errorf("%d workers compute other numbers than one", workers)
		}
	}
}

func TestNewNetworkRefusesWhatDoesNotFit(t *testing.T) {
	image := nn.Shape{Height: 4, Width: 4, Channels: 1}
	for name, c := range map[string]struct {
		in    nn.Shape
		specs []nn.Spec
	}{
		"no layers":          {image, nil},
		"nil":                {image, []nn.Spec{nil}},
		"nothing to compute": {image, []nn.Spec{nn.Reshape{Height: 1, Width: 1, Channels: 16}}},
		"empty records":      {nn.Shape{Height: 0, Width: 4, Channels: 1}, []nn.Spec{nn.ReLU}},
		"huge records":       {nn.Shape{Height: 1 << 20, Width: 1 << 20, Channels: 1 << 30}, []nn.Spec{nn.ReLU}},
		"dense of 0":         {image, []nn.Spec{nn.Dense{}}},
		"huge dense":         {image, []nn.Spec{nn.Dense{Out: math.MaxInt}}},
		"no channels":        {image, []nn.Spec{nn.Conv2D{Kernel: 1, Stride: 1}}},
		"no kernel":          {image, []nn.Spec{nn.Conv2D{Out: 1, Stride: 1}}},
		"no stride":          {image, []nn.Spec{nn.Conv2D{Out: 1, Kernel: 1}}},
		"large kernel":       {image, []nn.Spec{nn.Conv2D{Out: 1, Kernel: 5, Stride: 1}}},
		"huge padding":       {image, []nn.Spec{nn.Conv2D{Out: 1, Kernel: 2, Stride: 1, Pad: 2}}},
		"negative padding":   {image, []nn.Spec{nn.Conv2D{Out: 1, Kernel: 2, Stride: 1, Pad: -1}}},
		"huge convolution":   {image, []nn.Spec{nn.Conv2D{Out: math.MaxInt32, Kernel: 4, Stride: 1}}},
		"no pixel remains":   {nn.Vector(2), []nn.Spec{nn.ConvTranspose2D{Out: 1, Kernel: 2, Stride: 1, Pad: 1}}},
		"transposed of 0":    {image, []nn.Spec{nn.ConvTranspose2D{Kernel: 2, Stride: 1}}},
		"huge transposed":    {image, []nn.Spec{nn.ConvTranspose2D{Out: 1, Kernel: math.MaxInt, Stride: math.MaxInt}}},
		"reshape":            {image, []nn.Spec{nn.Reshape{Height: 3, Width: 5, Channels: 1}, nn.ReLU}},
		"negative reshape":   {image, []nn.Spec{nn.Reshape{Height: -4, Width: -4, Channels: 1}, nn.ReLU}},
		"slope 0":            {image, []nn.Spec{nn.LeakyReLU(0)}},
		"slope NaN":          {image, []nn.Spec{nn.LeakyReLU(math.NaN())}},
		"unknown activation": {image, []nn.Spec{nn.Activation(9)}},
		"no classes":         {image, []nn.Spec{nn.Embedding{Width: 1}}},
		"no width":           {image, []nn.Spec{nn.Embedding{Classes: 1}}},
		"late embedding":     {image, []nn.Spec{nn.ReLU, nn.Embedding{Classes: 1, Width: 1}}},
		"no body":            {image, []nn.Spec{nn.Residual{}}},
		"another shape":      {image, []nn.Spec{nn.Residual{Body: []nn.Spec{nn.Dense{Out: 3}}}}},
		"wrong shortcut": {image, []nn.Spec{nn.Residual{Body: []nn.Spec{nn.ReLU},
			Shortcut: []nn.Spec{nn.Conv2D{}}}}},
		"embedding in a block": {image, []nn.Spec{nn.Residual{Body: []nn.Spec{nn.Embedding{Classes: 1, Width: 1}},
			Shortcut: []nn.Spec{nn.Conv2D{Out: 2, Kernel: 1, Stride: 1}}}}},
	} {
		if _, err := nn.NewNetwork(rand.New(rand.NewPCG(1, 1)), c.in, c.specs...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// An unknown class is not overlooked, and does not reach other records.
func TestEmbeddingOfUnknownClassIsNaN(t *testing.T) {
	tn := nntest.NewNetwork(t, rand.New(rand.NewPCG(17, 18)), 6, nn.Vector(2), nn.Embedding{Classes: 3, Width: 2},
		nn.Dense{Out: 1})
	for i, class := range []float32{0, -1, 3, 0.5, float32(math.NaN()), 2} {
		tn.X[3*i+2] = class
	}
	for i, v := range tn.Net.Forward(tn.X, 6) {
		if isNaN := v != v; isNaN != (i > 0 && i < 5) {
			t.Errorf("record %d of class %v gives %v", i, tn.X[3*i+2], v)
		}
	}
}

func TestInitSpread(t *testing.T) {
	for name, c := range map[string]struct {
		init nn.Init
		want float64
	}{"glorot": {nn.GlorotUniform, math.Sqrt(2.0 / 500)}, "nil": {nil, math.Sqrt(2.0 / 500)},
		"dcgan": {nn.DCGAN, 0.02}} {
		w := make([]float32, 20000)
		nn.DrawInit(c.init, rand.New(rand.NewPCG(1, 2)), w, 100, 400)
		var sum, square float64
		for _, v := range w {
			sum, square = sum+float64(v), square+float64(v)*float64(v)
		}
		// Ten standard deviations of the estimates.
		if math.Abs(sum) > 10*c.want*math.Sqrt(20000) || math.Abs(math.Sqrt(square/20000)/c.want-1) > 0.05 {
			t.Errorf("%s: mean %v, spread %v, want 0 and %v", name, sum/20000, math.Sqrt(square/20000), c.want)
		}
	}
}

// allNets are randomNets and networks of residual blocks.
func allNets(t testing.TB, rng *rand.Rand, rounds int) []*nntest.Network {
	nets := randomNets(t, rng, rounds)
	for i := range rounds {
		image := nn.Shape{Height: 3 + rng.IntN(4), Width: 3 + rng.IntN(4), Channels: 1 + rng.IntN(3)}
		act := []nn.Spec{nn.LeakyReLU(0.2), nn.ReLU, nn.Tanh, nn.SigmoidUnit}[i%4]
		nets = append(nets, nntest.NewNetwork(t, rng, 1+rng.IntN(4), image,
			nn.Residual{Body: []nn.Spec{act, nn.Conv2D{Out: image.Channels, Kernel: 3, Stride: 1, Pad: 1}}},
			nn.LeakyReLU(0.1),
			nn.Residual{Body: []nn.Spec{nn.Conv2D{Out: 3, Kernel: 3, Stride: 2, Pad: 1}, act},
				Shortcut: []nn.Spec{nn.Conv2D{Out: 3, Kernel: 1, Stride: 2}}},
			act, nn.Pixel{}, nn.Dense{Out: 2}))
	}
	return nets
}

// randomNets returns networks of every other layer, of random sizes.
func randomNets(t testing.TB, rng *rand.Rand, rounds int) []*nntest.Network {
	var nets []*nntest.Network
	one := func(k int) int { return 1 + rng.IntN(k) }
	for range rounds {
		k, s := one(5), one(3)
		pad := rng.IntN(k)
		image := nn.Shape{Height: k + rng.IntN(6), Width: k + rng.IntN(6), Channels: one(4)}
		small := nn.Shape{Height: one(4), Width: one(4), Channels: one(4)}
		// Of a transposed convolution at least a pixel must remain.
		padT := min(pad, (k-1)/2)
		act := []nn.Spec{nn.LeakyReLU(0.2), nn.ReLU, nn.Tanh, nn.SigmoidUnit}[rng.IntN(4)]
		nets = append(nets,
			nntest.NewNetwork(t, rng, one(20), nn.Vector(one(9)), nn.Dense{Out: one(7)}, act, nn.Dense{Out: one(3)}),
			nntest.NewNetwork(t, rng, one(5), image, nn.Conv2D{Out: one(4), Kernel: k, Stride: s, Pad: pad}, act,
				nn.Dense{Out: 1}),
			nntest.NewNetwork(t, rng, one(40), image, nn.Conv2D{Out: one(4), Kernel: k, Stride: s, Pad: pad}),
			nntest.NewNetwork(t, rng, one(5), small, nn.ConvTranspose2D{Out: one(4), Kernel: k, Stride: s,
				Pad: padT}, act),
			nntest.NewNetwork(t, rng, one(3), image, act, nn.Conv2D{Out: one(3), Kernel: k, Stride: 1, Pad: pad},
				nn.LeakyReLU(0.1), nn.Conv2D{Out: 2, Kernel: 1, Stride: 1}, nn.Tanh, nn.SigmoidUnit),
			nntest.NewNetwork(t, rng, one(3), image, nn.Embedding{Classes: one(3), Width: one(3)},
				nn.Conv2D{Out: one(4), Kernel: k, Stride: s, Pad: pad}, act, nn.Dense{Out: 2}),
			nntest.NewNetwork(t, rng, one(4), nn.Vector(one(5)), nn.Embedding{Classes: 3, Width: one(4)}, act,
				nn.Dense{Out: 2 * 3 * 2}, nn.Reshape{Height: 2, Width: 3, Channels: 2}, nn.LeakyReLU(0.3),
				nn.ConvTranspose2D{Out: one(3), Kernel: 4, Stride: 2, Pad: 1},
				act, nn.ConvTranspose2D{Out: 1, Kernel: k, Stride: s, Pad: padT}, nn.LeakyReLU(0.2)),
		)
	}
	return nets
}
