package nn

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn/parallel"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
)

// Shape is that of one record: rows, columns and channels of an image, stored in
// this order (NHWC with the batch). A vector is an image of one pixel.
//
// With channels last, the numbers of a patch lie in runs, a convolution is one
// product whose result needs no transposition and whose bias is one per column,
// and a record is contiguous.
type Shape struct{ Height, Width, Channels int }

// Vector returns the shape of a record of n numbers.
func Vector(n int) Shape { return Shape{1, 1, n} }

// Size returns the number of values of a record.
func (s Shape) Size() int { return s.Height * s.Width * s.Channels }

func (s Shape) check() error {
	if s.Height < 1 || s.Width < 1 || s.Channels < 1 {
		return fmt.Errorf("records of shape %d x %d x %d, want at least 1 of each", s.Height, s.Width, s.Channels)
	}
	if _, err := tensor.Size([]int{s.Height, s.Width, s.Channels}); err != nil {
		return fmt.Errorf("records of shape %d x %d x %d are too large", s.Height, s.Width, s.Channels)
	}
	return nil
}

// Spec describes a layer: [Dense], [Conv2D], [ConvTranspose2D], [Activation],
// [LeakyReLU], [Embedding], [Reshape], [Pixel] or [Residual].
type Spec interface {
	// build makes the layer for records of shape in, and returns the shape of its output. A nil layer changes the
	// shape only.
	build(rng *rand.Rand, in Shape, p *parallel.Pool) (layer, Shape, error)
}

// layer is a step of a network. It treats the records of a batch independently: no number of a record depends on
// another record. It stores nothing of a batch, but for [Residual].
type layer interface {
	// forward writes the outputs for n records x to y.
	forward(y, x []float32, n int)
	// backward takes the gradient dy with respect to the outputs y of x. It writes the gradient with respect to x
	// to dx unless that is nil, and adds to the gradients of the parameters if params is set.
	backward(dx, dy, x, y []float32, n int, params bool)
	clone(p *parallel.Pool) layer
}

type weighted interface {
	layer
	slots() []slot
	// draw draws new first weights.
	draw(rng *rand.Rand)
}

// slot is a tensor of a layer and where the layer stores it, so that it can be replaced by one of the same size.
type slot struct {
	name        string
	shape       []int
	value, grad *[]float32
}

// rectifier is a layer that can do the work of a leaky rectifier after it.
type rectifier interface{ rectify(leak float32) }

// Reshape treats records as records of another shape with the same size.
type Reshape Shape

func (s Reshape) build(_ *rand.Rand, in Shape, _ *parallel.Pool) (layer, Shape, error) {
	to := Shape(s)
	if err := to.check(); err != nil {
		return nil, Shape{}, err
	}
	if to.Size() != in.Size() {
		return nil, Shape{}, fmt.Errorf("reshape of %d numbers to %d x %d x %d",
			in.Size(), to.Height, to.Width, to.Channels)
	}
	return nil, to, nil
}
