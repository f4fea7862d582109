package nntest

import (
	"math"
	"testing"

	"github.com/conclave-dp/conclave/internal/nn"
)

// Forward computes a network for one record in float64, layer by layer from the definitions. params are the
// network's parameters, in order.
func Forward(t testing.TB, in nn.Shape, specs []nn.Spec, params [][]float64, x []float64) []float64 {
	t.Helper()
	take := func() []float64 {
		p := params[0]
		params = params[1:]
		return p
	}
	y, _ := forward(t, in, specs, take, x)
	return y
}

// forward is Forward with the next parameters from take. It returns the shape of the outputs too.
func forward(t testing.TB, in nn.Shape, specs []nn.Spec, take func() []float64, x []float64) ([]float64, nn.Shape) {
	shape := in
	for _, s := range specs {
		switch s := s.(type) {
		case nn.Dense:
			w, b := take(), take()
			y := make([]float64, s.Out)
			for o := range y {
				y[o] = b[o]
				for i, v := range x {
					y[o] += w[i*s.Out+o] * v
				}
			}
			x, shape = y, nn.Vector(s.Out)
		case nn.Conv2D:
			w, b := take(), take()
			x, shape = refConv(s, shape, w, b, x)
		case nn.ConvTranspose2D:
			w, b := take(), take()
			x, shape = refConvTranspose(s, shape, w, b, x)
		case nn.Embedding:
			x = refEmbedding(s, shape, take(), x)
			shape.Channels += s.Width
		case nn.Reshape:
			shape = nn.Shape(s)
		case nn.Pixel:
			y, pixels := make([]float64, shape.Channels), shape.Height*shape.Width
			for i, v := range x {
				y[i%shape.Channels] += v / float64(pixels)
			}
			x, shape = y, nn.Vector(shape.Channels)
		case nn.Residual:
			y, to := forward(t, shape, s.Body, take, x)
			around, _ := forward(t, shape, s.Shortcut, take, x)
			for i, v := range around {
				y[i] += v
			}
			x, shape = y, to
		case nn.LeakyReLU:
			x = Mapped(x, func(v float64) float64 { return math.Max(v, 0) + float64(s)*math.Min(v, 0) })
		case nn.Activation:
			x = Mapped(x, map[nn.Activation]func(float64) float64{
				nn.ReLU: func(v float64) float64 { return math.Max(v, 0) },
				nn.Tanh: math.Tanh, nn.SigmoidUnit: func(v float64) float64 { return 1 / (1 + math.Exp(-v)) },
			}[s])
		default:
			t.Fatalf("no reference of %T", s)
		}
	}
	return x, shape
}

func refConv(s nn.Conv2D, in nn.Shape, w, b, x []float64) ([]float64, nn.Shape) {
	out := nn.Shape{Height: (in.Height+2*s.Pad-s.Kernel)/s.Stride + 1, Width: (in.Width+2*s.Pad-s.Kernel)/s.Stride + 1,
		Channels: s.Out}
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

func refConvTranspose(s nn.ConvTranspose2D, in nn.Shape, w, b, x []float64) ([]float64, nn.Shape) {
	out := nn.Shape{Height: (in.Height-1)*s.Stride - 2*s.Pad + s.Kernel,
		Width: (in.Width-1)*s.Stride - 2*s.Pad + s.Kernel, Channels: s.Out}
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
							y[(r*out.Width+q)*s.Out+o] += w[((c*s.Kernel+k)*s.Kernel+l)*s.Out+
								o] * x[(i*in.Width+j)*in.Channels+c]
						}
					}
				}
			}
		}
	}
	return y, out
}

func refEmbedding(s nn.Embedding, in nn.Shape, w, x []float64) []float64 {
	class, pixels := int(x[len(x)-1]), in.Height*in.Width
	var y []float64
	for p := range pixels {
		y = append(y, x[p*in.Channels:(p+1)*in.Channels]...)
		y = append(y, w[(class*pixels+p)*s.Width:][:s.Width]...)
	}
	return y
}
