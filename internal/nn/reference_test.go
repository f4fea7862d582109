package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// refForward computes a network for one record in float64, layer by layer from
// the definitions. params are those of the network, in order.
func refForward(t testing.TB, in Shape, specs []Spec, params [][]float64, x []float64) []float64 {
	t.Helper()
	take := func() []float64 {
		p := params[0]
		params = params[1:]
		return p
	}
	shape := in
	for _, s := range specs {
		switch s := s.(type) {
		case Dense:
			w, b := take(), take()
			y := make([]float64, s.Out)
			for o := range y {
				y[o] = b[o]
				for i, v := range x {
					y[o] += w[i*s.Out+o] * v
				}
			}
			x, shape = y, Vector(s.Out)
		case Conv2D:
			w, b := take(), take()
			x, shape = refConv(s, shape, w, b, x)
		case ConvTranspose2D:
			w, b := take(), take()
			x, shape = refConvTranspose(s, shape, w, b, x)
		case Embedding:
			x = refEmbedding(s, shape, take(), x)
			shape.Channels += s.Width
		case Reshape:
			shape = Shape(s)
		case LeakyReLU:
			x = mapped(x, func(v float64) float64 { return math.Max(v, 0) + float64(s)*math.Min(v, 0) })
		case Activation:
			x = mapped(x, map[Activation]func(float64) float64{
				ReLU: func(v float64) float64 { return math.Max(v, 0) },
				Tanh: math.Tanh, SigmoidUnit: func(v float64) float64 { return 1 / (1 + math.Exp(-v)) },
			}[s])
		default:
			t.Fatalf("no reference of %T", s)
		}
	}
	return x
}

func refConv(s Conv2D, in Shape, w, b, x []float64) ([]float64, Shape) {
	out := Shape{(in.Height+2*s.Pad-s.Kernel)/s.Stride + 1, (in.Width+2*s.Pad-s.Kernel)/s.Stride + 1, s.Out}
	y := make([]float64, out.Size())
	for i := range out.Height {
		for j := range out.Width {
			for o := range s.Out {
				sum := b[o]
				for k := range s.Kernel {
					for l := range s.Kernel {
						r, q := i*s.Stride-s.Pad+k, j*s.Stride-s.Pad+l
						if r < 0 || q < 0 || r >= in.Height || q >= in.Width {
							continue
						}
						for c := range in.Channels {
							sum += w[((o*s.Kernel+k)*s.Kernel+l)*in.Channels+c] * x[(r*in.Width+q)*in.Channels+c]
						}
					}
				}
				y[(i*out.Width+j)*s.Out+o] = sum
			}
		}
	}
	return y, out
}

func refConvTranspose(s ConvTranspose2D, in Shape, w, b, x []float64) ([]float64, Shape) {
	out := Shape{(in.Height-1)*s.Stride - 2*s.Pad + s.Kernel, (in.Width-1)*s.Stride - 2*s.Pad + s.Kernel, s.Out}
	y := make([]float64, out.Size())
	for i := range y {
		y[i] = b[i%s.Out]
	}
	for i := range in.Height {
		for j := range in.Width {
			for k := range s.Kernel {
				for l := range s.Kernel {
					r, q := i*s.Stride-s.Pad+k, j*s.Stride-s.Pad+l
					if r < 0 || q < 0 || r >= out.Height || q >= out.Width {
						continue
					}
					for c := range in.Channels {
						for o := range s.Out {
							y[(r*out.Width+q)*s.Out+o] += w[((c*s.Kernel+k)*s.Kernel+l)*s.Out+o] * x[(i*in.Width+j)*in.Channels+c]
						}
					}
				}
			}
		}
	}
	return y, out
}

func refEmbedding(s Embedding, in Shape, w, x []float64) []float64 {
	class, pixels := int(x[len(x)-1]), in.Height*in.Width
	var y []float64
	for p := range pixels {
		y = append(y, x[p*in.Channels:(p+1)*in.Channels]...)
		y = append(y, w[(class*pixels+p)*s.Width:][:s.Width]...)
	}
	return y
}

func mapped(x []float64, f func(float64) float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = f(v)
	}
	return y
}

func widened(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func widenedParams(params []Param) [][]float64 {
	var ps [][]float64
	for _, p := range params {
		ps = append(ps, widened(p.Value))
	}
	return ps
}

// testNet is a network of random size with records for it.
type testNet struct {
	in    Shape
	specs []Spec
	net   *Network
	x     []float32
	dout  []float32 // the loss is the sum of dout times the outputs
	n     int
}

// newTestNet gives all parameters, biases too, values that keep activations near
// 1.
func newTestNet(t testing.TB, rng *rand.Rand, n int, in Shape, specs ...Spec) *testNet {
	t.Helper()
	net, err := NewNetwork(rng, in, specs...)
	if err != nil {
		t.Fatalf("%v %v: %v", in, specs, err)
	}
	for _, p := range net.Params() {
		spread := 0.5
		if len(p.Shape) > 1 {
			fanIn := len(p.Value) / p.Shape[0]
			if len(p.Shape) == 2 {
				fanIn = p.Shape[0] // of a dense layer
			}
			spread = 1.5 / math.Sqrt(float64(fanIn))
		}
		for i := range p.Value {
			p.Value[i] = float32(spread * rng.NormFloat64())
		}
	}
	x := normals(rng, n*net.In())
	if e, ok := specs[0].(Embedding); ok {
		for i := range n {
			x[(i+1)*net.In()-1] = float32(rng.IntN(e.Classes))
		}
	}
	return &testNet{in: in, specs: specs, net: net, x: x, dout: normals(rng, n*net.Out()), n: n}
}

func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func (tn *testNet) String() string {
	return fmt.Sprintf("%d records of %v, %+v", tn.n, tn.in, tn.specs)
}

// loss is that of records [lo, hi) in float64.
func (tn *testNet) loss(t testing.TB, params [][]float64, x []float64, lo, hi int) float64 {
	var sum float64
	in, out := tn.net.In(), tn.net.Out()
	for i := lo; i < hi; i++ {
		for j, v := range refForward(t, tn.in, tn.specs, params, x[i*in:(i+1)*in]) {
			sum += float64(tn.dout[i*out+j]) * v
		}
	}
	return sum
}

// difference is the central difference of f at x[i].
func difference(x []float64, i int, f func() float64) float64 {
	const h = 1e-6
	was := x[i]
	x[i] = was + h
	up := f()
	x[i] = was - h
	down := f()
	x[i] = was
	return (up - down) / (2 * h)
}

// randomNets returns networks of every layer, of random sizes.
func randomNets(t testing.TB, rng *rand.Rand, rounds int) []*testNet {
	var nets []*testNet
	one := func(k int) int { return 1 + rng.IntN(k) }
	for range rounds {
		k, s := one(5), one(3)
		pad := rng.IntN(k)
		image := Shape{k + rng.IntN(6), k + rng.IntN(6), one(4)}
		small := Shape{one(4), one(4), one(4)}
		// Of a transposed convolution at least a pixel must remain.
		padT := min(pad, (k-1)/2)
		act := []Spec{LeakyReLU(0.2), ReLU, Tanh, SigmoidUnit}[rng.IntN(4)]
		nets = append(nets,
			newTestNet(t, rng, one(20), Vector(one(9)), Dense{Out: one(7)}, act, Dense{Out: one(3)}),
			newTestNet(t, rng, one(5), image, Conv2D{Out: one(4), Kernel: k, Stride: s, Pad: pad}, act, Dense{Out: 1}),
			newTestNet(t, rng, one(40), image, Conv2D{Out: one(4), Kernel: k, Stride: s, Pad: pad}),
			newTestNet(t, rng, one(5), small, ConvTranspose2D{Out: one(4), Kernel: k, Stride: s, Pad: padT}, act),
			newTestNet(t, rng, one(3), image, act, Conv2D{Out: one(3), Kernel: k, Stride: 1, Pad: pad}, LeakyReLU(0.1), Conv2D{Out: 2, Kernel: 1, Stride: 1}, Tanh, SigmoidUnit),
			newTestNet(t, rng, one(3), image, Embedding{Classes: one(3), Width: one(3)}, Conv2D{Out: one(4), Kernel: k, Stride: s, Pad: pad}, act, Dense{Out: 2}),
			newTestNet(t, rng, one(4), Vector(one(5)), Embedding{Classes: 3, Width: one(4)}, act, Dense{Out: 2 * 3 * 2}, Reshape{2, 3, 2}, LeakyReLU(0.3),
				ConvTranspose2D{Out: one(3), Kernel: 4, Stride: 2, Pad: 1}, act, ConvTranspose2D{Out: 1, Kernel: k, Stride: s, Pad: padT}, LeakyReLU(0.2)),
		)
	}
	return nets
}
