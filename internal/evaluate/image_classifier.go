package evaluate

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/partition"
)

// The classifier of images: two convolutions that halve the image, a layer of
// features, and the classes. It is a yardstick with fixed settings: 0.986 of
// MNIST's test images after its training images.
const (
	imageFeatures = 64
	imageEpochs   = 4
	imageBatch    = 64
	imageRate     = 1e-3
	imageSeed     = 1
)

// imageClassifier is a convolutional network, cut at its features.
type imageClassifier struct {
	shape    partition.Image
	classes  int
	features *nn.Network
	head     *nn.Network
	heads    *nn.Heads
}

func newImageClassifier(shape partition.Image, classes int, rng *rand.Rand) (*imageClassifier, error) {
	var layers []nn.Spec
	for h, w, channels := shape.Height, shape.Width, 16; h >= 4 && w >= 4 && channels <= 32; h, w, channels = h/2, w/2, 2*channels {
		layers = append(layers, nn.Conv2D{Out: channels, Kernel: 4, Stride: 2, Pad: 1}, nn.LeakyReLU(0.1))
	}
	layers = append(layers, nn.Dense{Out: imageFeatures}, nn.LeakyReLU(0.1))
	c := &imageClassifier{shape: shape, classes: classes}
	var err error
	if c.features, err = nn.NewNetwork(rng, nn.Shape{Height: shape.Height, Width: shape.Width, Channels: shape.Channels}, layers...); err != nil {
		return nil, err
	}
	if c.head, err = nn.NewNetwork(rng, nn.Vector(imageFeatures), nn.Dense{Out: classes}); err != nil {
		return nil, err
	}
	c.heads, err = nn.NewHeads([]nn.Head{{Kind: nn.SoftmaxHead, Width: classes}}, classes)
	return c, err
}

// trainImageClassifier fits a classifier. The same images give the same one.
func trainImageClassifier(ctx context.Context, x *partition.Images, classes int) (*imageClassifier, error) {
	rng := rand.New(rand.NewPCG(imageSeed, 0x13a9e))
	c, err := newImageClassifier(x.Shape, classes, rng)
	if err != nil {
		return nil, err
	}
	adams := []*nn.Adam{nn.NewAdam(c.features.Params(), imageRate), nn.NewAdam(c.head.Params(), imageRate)}
	for _, a := range adams {
		a.Beta1, a.Beta2 = 0.9, 0.999
	}
	target := make([]float32, imageBatch*classes)
	grad := make([]float32, imageBatch*classes)
	var batch []float32
	for range imageEpochs {
		order := rng.Perm(x.Len())
		for lo := 0; lo < len(order); lo += imageBatch {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			rows := order[lo:min(lo+imageBatch, len(order))]
			batch = c.pixels(batch[:0], x, rows)
			n := len(rows)
			clear(target)
			for i, row := range rows {
				target[i*classes+x.Classes[row]] = 1
			}
			raw := c.head.Forward(c.features.Forward(batch, n), n)
			c.heads.CrossEntropy(grad[:n*classes], raw, target[:n*classes], n)
			c.features.Backward(c.head.Backward(grad[:n*classes], true, true), true, false)
			for _, a := range adams {
				a.Step()
			}
		}
	}
	return c, nil
}

// pixels appends images in the range -1 to 1.
func (c *imageClassifier) pixels(to []float32, x *partition.Images, rows []int) []float32 {
	for _, i := range rows {
		for _, p := range x.Image(i) {
			to = append(to, float32(p)/127.5-1)
		}
	}
	return to
}

// look gives the features, shape [images, imageFeatures], and the class
// probabilities, shape [images, classes], of all images.
func (c *imageClassifier) look(ctx context.Context, x *partition.Images) (features, probabilities *mat.Dense, err error) {
	if x.Shape != c.shape {
		return nil, nil, fmt.Errorf("images of %d x %d x %d for a classifier of %d x %d x %d",
			x.Shape.Height, x.Shape.Width, x.Shape.Channels, c.shape.Height, c.shape.Width, c.shape.Channels)
	}
	features, probabilities = mat.NewDense(x.Len(), imageFeatures, nil), mat.NewDense(x.Len(), c.classes, nil)
	var batch []float32
	for lo := 0; lo < x.Len(); lo += imageBatch {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		var rows []int
		for i := lo; i < min(lo+imageBatch, x.Len()); i++ {
			rows = append(rows, i)
		}
		batch = c.pixels(batch[:0], x, rows)
		seen := c.features.Forward(batch, len(rows))
		classes := make([]float32, len(rows)*c.classes)
		c.heads.Forward(classes, c.head.Forward(seen, len(rows)), len(rows), nil) // softmax draws nothing
		for k, i := range rows {
			widen(features.RawRowView(i), seen[k*imageFeatures:])
			widen(probabilities.RawRowView(i), classes[k*c.classes:])
		}
	}
	return features, probabilities, nil
}

func widen(to []float64, from []float32) {
	for j := range to {
		to[j] = float64(from[j])
	}
}

// accuracy is the share of images whose most probable class is theirs.
func accuracy(probabilities *mat.Dense, classes []int) float64 {
	right := 0
	for i, c := range classes {
		row := probabilities.RawRowView(i)
		best := 0
		for j, p := range row {
			if p > row[best] {
				best = j
			}
		}
		if best == c {
			right++
		}
	}
	return float64(right) / float64(len(classes))
}
