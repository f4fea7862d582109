package nn

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// closeTo compares tensors: each number to a part of itself and, for those that
// cancel out, of the largest.
func closeTo(t testing.TB, what string, got []float32, want []float64, relative float64) {
	t.Helper()
	largest := 0.0
	for _, v := range want {
		largest = math.Max(largest, math.Abs(v))
	}
	for i, v := range want {
		if !(math.Abs(float64(got[i])-v) <= relative*(math.Abs(v)+0.01*largest)) {
			t.Errorf("%s: number %d is %v, want %v (largest %v)", what, i, got[i], v, largest)
			return
		}
	}
}

func TestNetworkAgreesWithDefinitions(t *testing.T) {
	for _, tn := range randomNets(t, rand.New(rand.NewPCG(1, 2)), 20) {
		got, params := tn.net.Forward(tn.x, tn.n), widenedParams(tn.net.Params())
		var want []float64
		for i := range tn.n {
			want = append(want, refForward(t, tn.in, tn.specs, params, widened(tn.x[i*tn.net.In():(i+1)*tn.net.In()]))...)
		}
		closeTo(t, tn.String(), got, want, 1e-4)
	}
}

func TestNetworkGradientsAgreeWithCentralDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, tn := range randomNets(t, rng, 12) {
		tn.net.Forward(tn.x, tn.n)
		dx := tn.net.Backward(tn.dout, true, true)
		params, x := widenedParams(tn.net.Params()), widened(tn.x)
		for k, p := range tn.net.Params() {
			all := func() float64 { return tn.loss(t, params, x, 0, tn.n) }
			checkSome(t, rng, tn.String()+": "+p.Name, p.Grad, params[k], all)
		}
		for i := range tn.n {
			in := tn.net.In()
			own := in // the class has no gradient
			if _, ok := tn.specs[0].(Embedding); ok {
				own--
			}
			one := func() float64 { return tn.loss(t, params, x, i, i+1) }
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
		got, want = append(got, grad[i]), append(want, difference(x, i, f))
	}
	closeTo(t, what, got, want, 1e-3)
}

// Backward adds to parameters' gradients, and only when it is asked to.
func TestNetworkBackwardAddsToGradients(t *testing.T) {
	for _, tn := range randomNets(t, rand.New(rand.NewPCG(5, 6)), 3) {
		tn.net.Forward(tn.x, tn.n)
		dx := slices.Clone(tn.net.Backward(tn.dout, false, true))
		for _, p := range tn.net.Params() {
			if slices.ContainsFunc(p.Grad, func(g float32) bool { return g != 0 }) {
				t.Fatalf("%v: %s has a gradient", tn, p.Name)
			}
		}
		if again := tn.net.Backward(tn.dout, true, true); !slices.Equal(dx, again) {
			t.Errorf("%v: the input gradient depends on the parameters' being wanted", tn)
		}
		once := widenedGrads(tn.net.Params(), 2)
		tn.net.Backward(tn.dout, true, false)
		for k, p := range tn.net.Params() {
			closeTo(t, tn.String()+": "+p.Name, p.Grad, once[k], 1e-5)
		}
	}
}

func widenedGrads(params []Param, times float64) [][]float64 {
	var gs [][]float64
	for _, p := range params {
		gs = append(gs, mapped(widened(p.Grad), func(v float64) float64 { return times * v }))
	}
	return gs
}

// dcgan is a small discriminator with every kind of work that is split up.
func dcgan(t testing.TB, rng *rand.Rand, n int) *testNet {
	return newTestNet(t, rng, n, Shape{14, 14, 1}, Embedding{Classes: 10, Width: 1},
		Conv2D{Out: 8, Kernel: 4, Stride: 2, Pad: 1, Init: DCGAN}, LeakyReLU(0.2),
		ConvTranspose2D{Out: 6, Kernel: 4, Stride: 2, Pad: 1}, Tanh,
		Conv2D{Out: 20, Kernel: 5, Stride: 3, Pad: 2}, LeakyReLU(0.2), Dense{Out: 1})
}

func TestNetworkIsTheSameWhateverGOMAXPROCS(t *testing.T) {
	train := func(procs, limit int) (bits []float32) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		tn := dcgan(t, rand.New(rand.NewPCG(7, 8)), 70)
		tn.net.SetWorkers(limit)
		opt := NewAdam(tn.net.Params(), 0.01)
		for range 3 {
			bits = append(bits, tn.net.Forward(tn.x, tn.n)...)
			bits = append(bits, tn.net.Backward(tn.dout, true, true)...)
			if _, err := tn.net.ClippedSum(tn.dout, 0.5); err != nil {
				t.Fatal(err)
			}
			opt.Step()
		}
		for _, p := range tn.net.Params() {
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
	if raced {
		t.Skip("the race detector makes pools forget, which allocates")
	}
	tn := dcgan(t, rand.New(rand.NewPCG(9, 10)), 40)
	for name, opt := range map[string]Optimizer{
		"sgd": NewSGD(tn.net.Params(), 0.01), "adam": NewAdam(tn.net.Params(), 0.01), "rmsprop": NewRMSprop(tn.net.Params(), 0.01),
	} {
		average := NewAverage(tn.net, 0.99)
		if got := testing.AllocsPerRun(5, func() {
			tn.net.Forward(tn.x, tn.n)
			tn.net.Backward(tn.dout, true, true)
			if _, err := tn.net.ClippedSum(tn.dout, 1); err != nil {
				t.Fatal(err)
			}
			opt.Step()
			average.Update(tn.net)
		}); got != 0 {
			t.Errorf("%s: %v allocations in a step", name, got)
		}
	}
}

func TestNetworkCloneIsIndependent(t *testing.T) {
	tn := dcgan(t, rand.New(rand.NewPCG(11, 12)), 20)
	before := slices.Clone(tn.net.Forward(tn.x, tn.n))
	clone := tn.net.Clone()
	if !slices.Equal(before, clone.Forward(tn.x, tn.n)) {
		t.Fatal("the clone computes something else")
	}
	clone.Backward(tn.dout, true, true)
	NewSGD(clone.Params(), 0.1).Step()
	for i, p := range tn.net.Params() {
		if slices.ContainsFunc(p.Grad, func(g float32) bool { return g != 0 }) {
			t.Errorf("%s has a gradient of the clone", p.Name)
		}
		if c := clone.Params()[i]; c.Name != p.Name || !slices.Equal(c.Shape, p.Shape) || slices.Equal(c.Value, p.Value) {
			t.Errorf("%s: the clone's is %s %v, or it did not learn", p.Name, c.Name, c.Shape)
		}
	}
	if !slices.Equal(before, tn.net.Forward(tn.x, tn.n)) {
		t.Error("training the clone changed the network")
	}
}

// A network that has worked and its clone may be used at the same time.
func TestNetworkAndCloneAtTheSameTime(t *testing.T) {
	tn := dcgan(t, rand.New(rand.NewPCG(19, 20)), 70)
	step := func(net *Network) (bits []float32) {
		net.Forward(tn.x, tn.n)
		bits = append(bits, net.Backward(tn.dout, true, true)...)
		for _, p := range net.Params() {
			bits = append(bits, p.Grad...)
			clear(p.Grad)
		}
		return bits
	}
	want := step(tn.net)
	var wait sync.WaitGroup
	for i, net := range []*Network{tn.net, tn.net.Clone(), tn.net.Clone()} {
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
	if y := tn.net.Forward(nil, 0); len(y) != 0 {
		t.Errorf("outputs %v", y)
	}
	tn.net.Backward(nil, true, true)
	if c, err := tn.net.ClippedSum(nil, 1); err != nil || len(c.Norms) != 0 {
		t.Errorf("clipped %v, %v", c, err)
	}
}

// Large products are split over processors; nothing may depend on how many.
func TestLargeDenseNetworkIsTheSameWhateverTheWorkers(t *testing.T) {
	const n = 100
	run := func(workers int) (y, dx, dw []float32) {
		rng := rand.New(rand.NewPCG(15, 16))
		net, err := NewNetwork(rng, Vector(784), Dense{Out: 300}, LeakyReLU(leak), Dense{Out: 784}, Tanh)
		if err != nil {
			t.Fatal(err)
		}
		net.SetWorkers(workers)
		y = net.Forward(normals(rng, n*784), n)
		dx = net.Backward(normals(rng, n*784), true, true)
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
	image := Shape{4, 4, 1}
	for name, c := range map[string]struct {
		in    Shape
		specs []Spec
	}{
		"no layers":          {image, nil},
		"nil":                {image, []Spec{nil}},
		"nothing to compute": {image, []Spec{Reshape{1, 1, 16}}},
		"empty records":      {Shape{0, 4, 1}, []Spec{ReLU}},
		"huge records":       {Shape{1 << 20, 1 << 20, 1 << 30}, []Spec{ReLU}},
		"dense of 0":         {image, []Spec{Dense{}}},
		"huge dense":         {image, []Spec{Dense{Out: math.MaxInt}}},
		"no channels":        {image, []Spec{Conv2D{Kernel: 1, Stride: 1}}},
		"no kernel":          {image, []Spec{Conv2D{Out: 1, Stride: 1}}},
		"no stride":          {image, []Spec{Conv2D{Out: 1, Kernel: 1}}},
		"large kernel":       {image, []Spec{Conv2D{Out: 1, Kernel: 5, Stride: 1}}},
		"huge padding":       {image, []Spec{Conv2D{Out: 1, Kernel: 2, Stride: 1, Pad: 2}}},
		"negative padding":   {image, []Spec{Conv2D{Out: 1, Kernel: 2, Stride: 1, Pad: -1}}},
		"huge convolution":   {image, []Spec{Conv2D{Out: math.MaxInt32, Kernel: 4, Stride: 1}}},
		"no pixel remains":   {Vector(2), []Spec{ConvTranspose2D{Out: 1, Kernel: 2, Stride: 1, Pad: 1}}},
		"transposed of 0":    {image, []Spec{ConvTranspose2D{Kernel: 2, Stride: 1}}},
		"huge transposed":    {image, []Spec{ConvTranspose2D{Out: 1, Kernel: math.MaxInt, Stride: math.MaxInt}}},
		"reshape":            {image, []Spec{Reshape{3, 5, 1}, ReLU}},
		"negative reshape":   {image, []Spec{Reshape{-4, -4, 1}, ReLU}},
		"slope 0":            {image, []Spec{LeakyReLU(0)}},
		"slope NaN":          {image, []Spec{LeakyReLU(math.NaN())}},
		"unknown activation": {image, []Spec{Activation(9)}},
		"no classes":         {image, []Spec{Embedding{Width: 1}}},
		"no width":           {image, []Spec{Embedding{Classes: 1}}},
		"late embedding":     {image, []Spec{ReLU, Embedding{Classes: 1, Width: 1}}},
	} {
		if _, err := NewNetwork(rand.New(rand.NewPCG(1, 1)), c.in, c.specs...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// An unknown class is not overlooked, and does not reach other records.
func TestEmbeddingOfUnknownClassIsNaN(t *testing.T) {
	tn := newTestNet(t, rand.New(rand.NewPCG(17, 18)), 6, Vector(2), Embedding{Classes: 3, Width: 2}, Dense{Out: 1})
	for i, class := range []float32{0, -1, 3, 0.5, float32(math.NaN()), 2} {
		tn.x[3*i+2] = class
	}
	for i, v := range tn.net.Forward(tn.x, 6) {
		if isNaN := v != v; isNaN != (i > 0 && i < 5) {
			t.Errorf("record %d of class %v gives %v", i, tn.x[3*i+2], v)
		}
	}
}

func TestInitSpread(t *testing.T) {
	for name, c := range map[string]struct {
		init Init
		want float64
	}{"glorot": {GlorotUniform, math.Sqrt(2.0 / 500)}, "nil": {nil, math.Sqrt(2.0 / 500)}, "dcgan": {DCGAN, 0.02}} {
		w := make([]float32, 20000)
		c.init.draw(rand.New(rand.NewPCG(1, 2)), w, 100, 400)
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
