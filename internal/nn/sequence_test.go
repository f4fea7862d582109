package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomChain draws layers in which units, rectifiers and other activations follow
// one another in any order, which is where layers take over one another's work.
func randomChain(t testing.TB, rng *rand.Rand) *testNet {
	in := Vector(1 + rng.IntN(5))
	var specs []Spec
	if rng.IntN(4) == 0 {
		in = Shape{2 + rng.IntN(2), 2 + rng.IntN(2), 1 + rng.IntN(2)}
		specs = append(specs, Conv2D{Out: 1 + rng.IntN(2), Kernel: 2, Stride: 1})
	}
	for range 1 + rng.IntN(7) {
		switch rng.IntN(8) {
		case 0, 1:
			specs = append(specs, Dense{Out: 1})
		case 2, 3:
			specs = append(specs, Dense{Out: 1 + rng.IntN(4)})
		case 4, 5, 6:
			specs = append(specs, LeakyReLU([]float32{0.2, 0.7, 1}[rng.IntN(3)]))
		case 7:
			specs = append(specs, []Spec{ReLU, Tanh, SigmoidUnit}[rng.IntN(3)])
		}
	}
	return newTestNet(t, rng, 1, in, specs...)
}

// batch draws other records and another loss, and computes their outputs.
func (tn *testNet) batch(rng *rand.Rand, net *Network, n int) []float32 {
	tn.n, tn.x, tn.dout = n, normals(rng, n*net.In()), normals(rng, n*net.Out())
	return net.Forward(tn.x, n)
}

// slopes returns, for records [lo, hi), the gradients of the loss by all
// parameters and by the records, from differences.
func (tn *testNet) slopes(t testing.TB, net *Network, lo, hi int) (params [][]float64, input []float64) {
	at, x := widenedParams(net.Params()), widened(tn.x)
	f := func() float64 { return tn.loss(t, at, x, lo, hi) }
	for _, p := range at {
		g := make([]float64, len(p))
		for i := range p {
			g[i] = difference(p, i, f)
		}
		params = append(params, g)
	}
	for i := lo * net.In(); i < hi*net.In(); i++ {
		input = append(input, difference(x, i, f))
	}
	return params, input
}

// Calls in any order add up to what the definitions say: passes of any kind over
// batches of any size, clipped or not, of a network and its clones.
func TestSequencesOfCallsAgreeWithDefinitions(t *testing.T) {
	chains := 400
	if testing.Short() {
		chains = 100
	}
	for seed := range uint64(chains) {
		rng := rand.New(rand.NewPCG(seed, 41))
		tn := randomChain(t, rng)
		net := tn.net
		want := widenedGrads(net.Params(), 0)
		tn.batch(rng, net, rng.IntN(6))
		var calls []string
		for range 12 {
			call := ""
			switch rng.IntN(6) {
			case 0:
				call = "forward"
				y := tn.batch(rng, net, rng.IntN(6))
				var out []float64
				for i := range tn.n {
					out = append(out, refForward(t, tn.in, tn.specs, widenedParams(net.Params()), widened(tn.x[i*net.In():(i+1)*net.In()]))...)
				}
				closeTo(t, tn.String(), y, out, 1e-4)
			case 1, 2, 3:
				params, input := rng.IntN(2) == 0, rng.IntN(2) == 0
				call = fmt.Sprintf("backward %v %v", params, input)
				dx := net.Backward(tn.dout, params, input)
				slopes, dxWant := tn.slopes(t, net, 0, tn.n)
				if input {
					nearly(t, tn.String()+": input", dx, dxWant)
				}
				if params {
					add(want, slopes, 1)
				}
			case 4:
				call = "clipped sum"
				c, err := net.ClippedSum(tn.dout, 0.5)
				if err != nil {
					t.Fatal(err)
				}
				for i := range tn.n {
					slopes, _ := tn.slopes(t, net, i, i+1)
					norm := normOf(slopes)
					if scale := math.Min(1, 0.5/norm); norm > 0 && math.Abs(float64(c.Scales[i])/scale-1) > 1e-2 {
						t.Errorf("%v after %q: record %d is scaled by %v, want %v", tn, calls, i, c.Scales[i], scale)
					}
					add(want, slopes, float64(c.Scales[i]))
				}
			case 5:
				call = "clone"
				net = net.Clone()
				want = widenedGrads(net.Params(), 0)
				net.Forward(tn.x, tn.n)
			}
			calls = append(calls, call)
			for k, p := range net.Params() {
				nearly(t, fmt.Sprintf("%v after %q: %s", tn, calls, p.Name), p.Grad, want[k])
			}
			if t.Failed() {
				return
			}
		}
		if slices.Contains(calls, "clone") && len(net.Params()) > 0 && &net.Params()[0].Value[0] == &tn.net.Params()[0].Value[0] {
			t.Error("a clone shares weights")
		}
	}
}

func add(sums, terms [][]float64, scale float64) {
	for k, s := range sums {
		for i := range s {
			s[i] += scale * terms[k][i]
		}
	}
}

// nearly is closeTo that forgives what saturated activations lose: their slope
// follows from outputs that are rounded near 1.
func nearly(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	for i, v := range want {
		if !(math.Abs(float64(got[i])-v) <= 1e-3*math.Abs(v)+1e-5) {
			t.Errorf("%s: number %d is %v, want %v", what, i, got[i], v)
			return
		}
	}
}
