package pipeline

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/partition"
)

// imageGrid is how a convolutional generator makes an image (after Radford, Metz and Chintala 2016). A dense
// layer makes few pixels of many channels. Each transposed convolution doubles their rows and columns and
// halves the channels, and the last one makes the image's channels. There is no normalization over the batch,
// so records do not depend on each other.
type imageGrid struct {
	height, width int   // of the first grid
	channels      []int // of each grid; the last is the image
}

// The convolutions' shape, which doubles a grid.
const (
	upKernel = 4
	upStride = 2
	upPad    = 1
)

// checkImage tells whether doubling can make images of this shape.
func (s GeneratorSpec) checkImage(image *partition.Image) error {
	if image == nil {
		return errors.New("a generator of kind convolution needs a schema of images (format: idx): use kind dense")
	}
	h, w, halvings := image.Height, image.Width, 0
	for ; h%2 == 0 && w%2 == 0; halvings++ {
		h, w = h/2, w/2
	}
	switch {
	case halvings == 0:
		return fmt.Errorf("a generator of kind convolution cannot make images of %d x %d, because a side is odd: use "+
			"kind dense", image.Height, image.Width)
	case s.Layers > halvings:
		return fmt.Errorf("a generator of kind convolution with layers %d cannot make images of %d x %d, which can be "+
			"halved %d times: use kind dense, or set layers to at most %d", s.Layers, image.Height, image.Width,
			halvings, halvings)
	}
	return nil
}

// grid lays out a generator that checkImage has accepted.
func (s GeneratorSpec) grid(image partition.Image) imageGrid {
	g := imageGrid{height: image.Height >> s.Layers, width: image.Width >> s.Layers}
	for i := range s.Layers {
		g.channels = append(g.channels, max(1, s.Hidden>>i))
	}
	g.channels = append(g.channels, image.Channels)
	return g
}

// weights is the number of weights of the network for records of `inputs` numbers.
func (g imageGrid) weights(inputs int) int {
	n := inputs * g.height * g.width * g.channels[0]
	for i, c := range g.channels[1:] {
		n += g.channels[i] * upKernel * upKernel * c
	}
	return n
}

// layers are the layers of the network, for records of noise and one class.
func (g imageGrid) layers(noise int) []nn.Spec {
	layers := []nn.Spec{
		nn.Dense{Out: g.height * g.width * g.channels[0], Init: spread(1, float64(noise+1))},
		nn.LeakyReLU(leak),
		nn.Reshape{Height: g.height, Width: g.width, Channels: g.channels[0]},
	}
	for i, c := range g.channels[1:] {
		last := i == len(g.channels)-2
		deviation := 1.0
		if last {
			deviation = pixelSpread
		}
		// An output sees 2 x 2 pixels, with the mean square that a rectifier leaves.
		from := float64(g.channels[i]) * (upKernel / upStride) * (upKernel / upStride)
		layers = append(layers, nn.ConvTranspose2D{
			Out: c, Kernel: upKernel, Stride: upStride, Pad: upPad,
			Init: spread(deviation, from*(1+leak*leak)/2),
		})
		if !last {
			layers = append(layers, nn.LeakyReLU(leak))
		}
	}
	return layers
}

// pixelSpread is the standard deviation of the first outputs. Most pixels are then between 0.1 and 0.9.
const pixelSpread = 1.5

// spread draws initial weights so that sums have the given standard deviation, if the squares of the summed
// numbers add up to squares. With Glorot's weights the signal would fade: the first layer has fewer inputs than
// outputs, and a pixel of a transposed convolution sees a quarter of a kernel.
func spread(deviation, squares float64) nn.Init {
	bound := deviation * math.Sqrt(3/squares)
	return func(rng *rand.Rand, w []float32, _, _ int) {
		for i := range w {
			w[i] = float32((2*rng.Float64() - 1) * bound)
		}
	}
}
