package discriminator

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/projection"
)

// MaxParameters bounds the weights: a release holds one number for each of them.
const MaxParameters = 1 << 17

// maxRandom bounds the random numbers of the features: 64 MiB.
const maxRandom = 1 << 24

// The kinds of discriminators.
const (
	Dense       = "dense"
	Convolution = "convolution"
)

// leak is the slope of rectifiers below zero.
const leak = 0.2

// Spec describes a discriminator's inputs and its structure.
type Spec struct {
	// Features is the width of a record. Image is its shape if it is an image, and zero otherwise.
	Features int
	Image    nn.Shape
	// Numbers lists the features that are numbers and not choices.
	Numbers []int
	Classes int

	// Kind is Dense or Convolution.
	Kind string
	// Hidden is the width of hidden layers, or the number of channels of the first convolution; each further one
	// doubles it. Layers is the number of layers, 0 for a linear score.
	Hidden, Layers int
	// Each gives every class its own weights in the last layer; otherwise the class is an additional input, or a plane
	// of an image.
	Each bool
	// Standard standardizes columns by the generated records, and adds the squares of numbers; see package
	// scaling.
	Standard bool
	// Pieces encodes each number by its position in fixed pieces of [0, 1]; see [projection.Pieces]. Only for
	// tables.
	Pieces bool
	// Fourier is the number of additional random features of the inputs, by Seed; see [projection.Fourier].
	Fourier int
	Seed    uint64
	// Cosines is the number of cosine coefficients of an image that are inputs: those of its k x k lowest
	// frequencies in each channel. 0 means pixels.
	Cosines int
}

// The shape of a convolution that halves an image.
const (
	convKernel = 4
	convStride = 2
	convPad    = 1
)

// Check says what is wrong with a spec, and how to fix it.
func (s Spec) Check() error {
	image := s.Image.Size() > 0
	switch {
	case s.Features < 1 || image && s.Features != s.Image.Size():
		return fmt.Errorf("a discriminator of records of %d features, want at least 1 and all pixels of an image",
			s.Features)
	case s.Classes < 1:
		return fmt.Errorf("a discriminator of %d classes, want at least 1", s.Classes)
	case s.Kind != Dense && s.Kind != Convolution:
		return fmt.Errorf("a discriminator of kind %q is unknown; use dense or convolution", s.Kind)
	case s.Layers < 0 || s.Layers > 16:
		return fmt.Errorf("a discriminator of %d layers; use 0 to 16", s.Layers)
	case s.Layers > 0 && (s.Hidden < 1 || s.Hidden > 1<<16):
		return fmt.Errorf("hidden layers of %d units; use 1 to 65536", s.Hidden)
	case (s.Standard || s.Pieces) && image:
		return errors.New("standard inputs and pieces are for tables only; use plain pixels or cosines for images")
	case s.Standard && s.Pieces:
		return errors.New("use either standard inputs or pieces, not both")
	case s.Fourier < 0 || s.Fourier > MaxParameters || int64(s.Fourier)*int64(s.seen()) > maxRandom:
		return fmt.Errorf("%d random features of %d numbers; use 0 or more, and at most %d numbers in total",
			s.Fourier, s.seen(), maxRandom)
	case s.Cosines != 0 && !image:
		return errors.New("cosines are for images only")
	case s.Cosines < 0 || s.Cosines > s.Features:
		return fmt.Errorf("%d cosines of an image of %d numbers; use 1 to all", s.Cosines, s.Features)
	}
	if s.Kind == Convolution {
		return s.checkConvolution(image)
	}
	return s.checkSize()
}

func (s Spec) checkConvolution(image bool) error {
	switch {
	case !image:
		return errors.New("a discriminator of kind convolution needs images: use kind dense")
	case s.Cosines > 0 || s.Fourier > 0:
		return errors.New("a discriminator of kind convolution sees pixels, not cosines or random features: " +
			"use kind dense")
	case s.Layers < 1:
		return errors.New("a discriminator of kind convolution needs at least one layer")
	case s.Image.Height>>s.Layers < 1 || s.Image.Width>>s.Layers < 1:
		return fmt.Errorf("an image of %d x %d cannot be halved %d times; use fewer layers", s.Image.Height,
			s.Image.Width, s.Layers)
	}
	return s.checkSize()
}

func (s Spec) checkSize() error {
	if s.Parameters() > MaxParameters {
		return fmt.Errorf("a discriminator of more than %d weights; use smaller layers or fewer inputs", MaxParameters)
	}
	return nil
}

// Parameters counts the weights before any memory is allocated for them. Far above the bound it stops counting.
func (s Spec) Parameters() int {
	n, in := 0, s.first()
	if s.Kind == Convolution {
		h, w, channels := s.Image.Height, s.Image.Width, s.Image.Channels
		if !s.Each {
			n, channels = s.Classes*h*w, channels+1
		}
		for l := 0; l < s.Layers && n <= MaxParameters; l++ {
			out := s.Hidden << l
			n += out * (convKernel*convKernel*channels + 1)
			h, w, channels = h/2, w/2, out
		}
		in = h * w * channels
	} else {
		for l := 0; l < s.Layers && n <= MaxParameters; l++ {
			n += (in + 1) * s.Hidden
			in = s.Hidden
		}
	}
	return n + (in+1)*s.outputs()
}

// seen is the number of features seen of a record, before random features and the class.
func (s Spec) seen() int {
	switch {
	case s.Standard:
		return s.Features + len(s.Numbers)
	case s.Pieces:
		return s.Features + len(s.Numbers)*(projection.PieceCount-1)
	case s.Cosines > 0:
		return s.Cosines
	}
	return s.Features
}

// first is the number of inputs of the network.
func (s Spec) first() int {
	switch {
	case s.Each:
		return s.seen() + s.Fourier
	case s.Kind == Convolution:
		return s.Features + 1 // an embedding takes the class as one number
	}
	return s.seen() + s.Fourier + s.Classes
}

// outputs is the number of scores that the network computes for a record; only that of the record's class counts.
func (s Spec) outputs() int {
	if s.Each {
		return s.Classes
	}
	return 1
}

// layers are those of the network.
func (s Spec) layers() (in nn.Shape, layers []nn.Spec) {
	if s.Kind == Convolution {
		if !s.Each {
			layers = append(layers, nn.Embedding{Classes: s.Classes, Width: 1})
		}
		for l := range s.Layers {
			layers = append(layers, nn.Conv2D{Out: s.Hidden << l, Kernel: convKernel, Stride: convStride, Pad: convPad},
				nn.LeakyReLU(leak))
		}
		return s.Image, append(layers, nn.Dense{Out: s.outputs()})
	}
	for range s.Layers {
		layers = append(layers, nn.Dense{Out: s.Hidden}, nn.LeakyReLU(leak))
	}
	last := nn.Dense{Out: s.outputs()}
	if s.Layers == 0 {
		last.Init = nn.Zeros
	}
	return nn.Vector(s.first()), append(layers, last)
}

// The spread of random features, the inverse length scale of their kernel, and their weight. Images are farther
// apart than rows.
const (
	fourierSpread      = 0.8
	fourierSpreadImage = 0.2
	fourierWeight      = 3
)

func (s Spec) fourierSpread() float64 {
	if s.Image.Size() > 0 {
		return fourierSpreadImage
	}
	return fourierSpread
}

// Reach bounds the L2 norm of the gradient of a linear discriminator's loss at any record with the given number of
// choices, for all weights. It is the norm of the inputs, as the slope of losses is at most 1. It is 0 if there is
// no such bound. A clip norm of Reach clips no unit.
func (s Spec) Reach(choices int) float64 {
	if s.Layers > 0 || s.Kind != Dense || s.Standard || s.Image.Size() > 0 {
		return 0
	}
	// The bias, and either a one for each choice and the value of each number, or its pieces.
	squares := 1.0
	if s.Pieces {
		squares += float64(choices) + float64(len(s.Numbers)*projection.PieceCount)/16
	} else {
		squares += float64(s.Features)
	}
	if s.Fourier > 0 {
		squares += 2 * fourierWeight * fourierWeight
	}
	if !s.Each {
		squares++
	}
	return math.Sqrt(squares)
}
