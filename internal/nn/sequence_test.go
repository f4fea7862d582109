package nn_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/nntest"
)

// randomChain draws layers in which units, rectifiers and other activations follow
// one another in any order, which is where layers take over one another's work.
func randomChain(t testing.TB, rng *rand.Rand) *nntest.Network {
	in := nn.Vector(1 + rng.IntN(5))
	var specs []nn.Spec
	if rng.IntN(4) == 0 {
		in = nn.Shape{Height: 2 + rng.IntN(2), Width: 2 + rng.IntN(2), Channels: 1 + rng.IntN(2)}
		specs = append(specs, nn.Conv2D{Out: 1 + rng.IntN(2), Kernel: 2, Stride: 1})
	}
	for range 1 + rng.IntN(7) {
		switch rng.IntN(8) {
		case 0, 1:
			specs = append(specs, nn.Dense{Out: 1})
		case 2, 3:
			specs = append(specs, nn.Dense{Out: 1 + rng.IntN(4)})
		case 4, 5, 6:
			specs = append(specs, nn.LeakyReLU([]float32{0.2, 0.7, 1}[rng.IntN(3)]))
		case 7:
			specs = append(specs, []nn.Spec{nn.ReLU, nn.Tanh, nn.SigmoidUnit}[rng.IntN(3)])
		}
	}
	return nntest.NewNetwork(t, rng, 1, in, specs...)
}

// batch draws other records and another loss, and computes their outputs.
func batch(tn *nntest.Network, rng *rand.Rand, net *nn.Network, n int) []float32 {
	tn.N, tn.X, tn.Dout = n, nntest.Normals(rng, n*net.In()), nntest.Normals(rng, n*net.Out())
	return net.Forward(tn.X, n)
}

// slopes returns, for records [lo, hi), the gradients of the loss by all
// parameters and by the records, from differences.
func slopes(t testing.TB, tn *nntest.Network, net *nn.Network, lo, hi int) (params [][]float64, input []float64) {
	at, x := nntest.WidenedParams(net.Params()), nntest.Widened(tn.X)
	f := func() float64 { return tn.Loss(t, at, x, lo, hi) }
	for _, p := range at {
		g := make([]float64, len(p))
		for i := range p {
			g[i] = nntest.Difference(p, i, f)
		}
		params = append(params, g)
	}
	for i := lo * net.In(); i < hi*net.In(); i++ {
		input = append(input, nntest.Difference(x, i, f))
	}
	return params, input
}

// Calls in any order add up to what the definitions say: passes of any kind over
// batches of any size, of a network and its clones.
func TestSequencesOfCallsAgreeWithDefinitions(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 41))
		tn := randomChain(t, rng)
		net := tn.Net
		want := widenedGrads(net.Params(), 0)
		batch(tn, rng, net, rng.IntN(6))
		var calls []string
		for range 12 {
			call := ""
			switch rng.IntN(5) {
			case 0:
				call = "forward"
				y := batch(tn, rng, net, rng.IntN(6))
				var out []float64
				for i := range tn.N {
					out = append(out, nntest.Forward(t, tn.In, tn.Specs, nntest.WidenedParams(net.Params()),
						nntest.Widened(tn.X[i*net.In():(i+1)*net.In()]))...)
				}
				nntest.Close(t, tn.String(), y, out, 1e-4)
			case 1, 2, 3:
				params, input := rng.IntN(2) == 0, rng.IntN(2) == 0
				call = fmt.Sprintf("backward %v %v", params, input)
				dx := net.Backward(tn.Dout, params, input)
				slopes, dxWant := slopes(t, tn, net, 0, tn.N)
				if input {
					nearly(t, tn.String()+": input", dx, dxWant)
				}
				if params {
					add(want, slopes, 1)
				}
			case 4:
				call = "clone"
				net = net.Clone()
				want = widenedGrads(net.Params(), 0)
				net.Forward(tn.X, tn.N)
			}
			calls = append(calls, call)
			for k, p := range net.Params() {
				nearly(t, fmt.Sprintf("%v after %q: %s", tn, calls, p.Name), p.Grad, want[k])
			}
			if t.Failed() {
				return
			}
		}
		if slices.Contains(calls, "clone") && len(net.Params()) > 0 &&
			&net.Params()[0].Value[0] == &tn.Net.Params()[0].Value[0] {
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

// nearly is Close that forgives what saturated activations lose: their slope
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
