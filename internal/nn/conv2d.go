package nn

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/parallel"
)

// Conv2D is a convolution: every output pixel is a product of W, of shape [Out,
// Kernel, Kernel, channels], with the Kernel x Kernel pixels that it sees, plus
// a bias. Output pixel (i, j) sees input pixels from (i*Stride-Pad,
// j*Stride-Pad) on; those outside are zeros. An image of height h becomes one of
// height (h+2*Pad-Kernel)/Stride+1, rounded down.
//
// Kernel 4, Stride 2 and Pad 1 halve an image, as in DCGAN.
type Conv2D struct {
	Out, Kernel, Stride, Pad int
	Init                     Init // of W; nil is GlorotUniform
}

// ConvTranspose2D spreads every input pixel over Kernel x Kernel output pixels
// from (i*Stride-Pad, j*Stride-Pad) on, by W of shape [channels, Kernel, Kernel,
// Out], and adds a bias: the transpose of Conv2D. An image of height h becomes
// one of height (h-1)*Stride-2*Pad+Kernel.
//
// Kernel 4, Stride 2 and Pad 1 double an image; Kernel 7, Stride 1 and Pad 0 make
// 7 x 7 pixels of a vector.
type ConvTranspose2D struct {
	Out, Kernel, Stride, Pad int
	Init                     Init // of W; nil is GlorotUniform
}

func (s Conv2D) build(rng *rand.Rand, in Shape, p *parallel.Pool) (layer, Shape, error) {
	if s.Out < 1 || s.Stride < 1 {
		return nil, Shape{}, fmt.Errorf("convolution to %d channels with stride %d, want at least 1 of each",
			s.Out, s.Stride)
	}
	grid := patches{
		of: in, kernel: s.Kernel, stride: s.Stride, pad: s.Pad,
		rows: positionsAlong(in.Height, s.Kernel, s.Stride, s.Pad),
		cols: positionsAlong(in.Width, s.Kernel, s.Stride, s.Pad),
	}
	out := Shape{grid.rows, grid.cols, s.Out}
	c, err := newConvolution(rng, grid, s.Out, false, s.Init, p)
	return c, out, err
}

func (s ConvTranspose2D) build(rng *rand.Rand, in Shape, p *parallel.Pool) (layer, Shape, error) {
	if s.Out < 1 || s.Stride < 1 || s.Kernel < 1 || s.Kernel > maxSide || s.Stride > maxSide {
		return nil, Shape{}, fmt.Errorf("transposed convolution to %d channels with kernel %d and stride %d,"+
			" want at least 1 of each", s.Out, s.Kernel, s.Stride)
	}
	out := Shape{(in.Height-1)*s.Stride - 2*s.Pad + s.Kernel, (in.Width-1)*s.Stride - 2*s.Pad + s.Kernel, s.Out}
	grid := patches{of: out, kernel: s.Kernel, stride: s.Stride, pad: s.Pad, rows: in.Height, cols: in.Width}
	c, err := newConvolution(rng, grid, in.Channels, true, s.Init, p)
	return c, out, err
}

// maxSide bounds kernels and strides, so that sizes stay within an int.
const maxSide = 1 << 15

// positionsAlong returns the number of positions of a kernel along a side, 0 if it does not fit.
func positionsAlong(size, kernel, stride, pad int) int {
	if free := size + 2*pad - kernel; free >= 0 {
		return free/stride + 1
	}
	return 0
}
