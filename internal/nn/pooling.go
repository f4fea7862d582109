package nn

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/kernel/vector"
	"github.com/conclave-dp/conclave/internal/nn/parallel"
)

// Pixel replaces an image by its mean pixel: a vector of the mean of each channel.
type Pixel struct{}

func (Pixel) build(_ *rand.Rand, in Shape, _ *parallel.Pool) (layer, Shape, error) {
	return pixel(in), Vector(in.Channels), nil
}

type pixel Shape

func (p pixel) forward(y, x []float32, n int) {
	pixels, size := p.Height*p.Width, Shape(p).Size()
	clear(y)
	for i := range n {
		vector.AddRows(y[i*p.Channels:(i+1)*p.Channels], x[i*size:(i+1)*size], pixels, p.Channels)
	}
	vector.Scale(y, 1/float32(pixels))
}

func (p pixel) backward(dx, dy, _, _ []float32, n int, _ bool) {
	if dx == nil {
		return
	}
	pixels := p.Height * p.Width
	clear(dx)
	for at := range n * pixels {
		of := at / pixels
		vector.AddScaled(dx[at*p.Channels:(at+1)*p.Channels], dy[of*p.Channels:(of+1)*p.Channels], 1/float32(pixels))
	}
}

func (p pixel) clone(*parallel.Pool) layer { return p }
