package pipeline

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/partition/encode"
)

// The kinds of generators. The empty kind is dense.
const (
	// KindDense is a network of dense layers, for tables and images.
	KindDense = "dense"
	// KindConvolution is a network of transposed convolutions, for images.
	KindConvolution = "convolution"
)

// GeneratorSpec is the shape of a generator.
type GeneratorSpec struct {
	// Kind is KindDense, or empty, or KindConvolution.
	Kind string `json:"kind,omitempty"`
	// Noise is the number of normal random inputs for a record.
	Noise int `json:"noise"`
	// Hidden is the width of each hidden layer. Of a convolution it is the
	// number of channels of the first and smallest grid of pixels; each doubling
	// of the grid halves it.
	Hidden int `json:"hidden"`
	// Layers is the number of hidden layers. For a convolution it is how often the grid of pixels doubles, so
	// height and width of the images have to be multiples of 2^Layers: with 2, images of 28 x 28 begin as 7 x 7.
	Layers int `json:"layers"`
	// Classes is the number of classes that can be asked for.
	Classes int `json:"classes"`
	// Warp is the strength of the small random affine maps that end the generator of images, 0 for none. At 1
	// the standard deviations are: turns of 0.15 radians, shears of 0.15, scales of a tenth and shifts of a
	// 28th of a side.
	Warp float64 `json:"warp,omitempty"`
}

// The limits of generators, so that a damaged file does not use up the memory.
const (
	maxWidth   = 1 << 16
	maxLayers  = 64
	maxWeights = 1 << 29 // 2 GiB
	// maxWarp is far above any value that leaves an image recognizable.
	maxWarp = 10
)

// Check tells whether a generator of this shape can make the features of e.
func (s GeneratorSpec) Check(e *encode.Encoder) error {
	for _, f := range []struct {
		name        string
		value, most int
	}{{"noise", s.Noise, maxWidth}, {"hidden", s.Hidden, maxWidth}, {"layers", s.Layers, maxLayers},
		{"classes", s.Classes, maxWidth}} {
		if f.value < 1 {
			return fmt.Errorf("a generator with %s %d: set it to at least 1", f.name, f.value)
		}
		if f.value > f.most {
			return fmt.Errorf("a generator with %s %d is too large: set it to at most %d", f.name, f.value, f.most)
		}
	}
	if !(s.Warp >= 0 && s.Warp <= maxWarp) {
		return fmt.Errorf("a generator with warp %v: set it to 0 to %d", s.Warp, maxWarp)
	}
	if s.Warp > 0 && e.Image() == nil {
		return fmt.Errorf("a generator with warp %v needs a schema of images (format: idx): set it to 0", s.Warp)
	}
	var weights int
	switch s.Kind {
	case "", KindDense:
		weights = (s.Noise+s.Classes)*s.Hidden + (s.Layers-1)*s.Hidden*s.Hidden + s.Hidden*e.Width()
	case KindConvolution:
		if err := s.checkImage(e.Image()); err != nil {
			return err
		}
		weights = s.grid(*e.Image()).weights(s.Noise + s.Classes)
	default:
		return fmt.Errorf("a generator of kind %q is unknown to this version: use %s or %s", s.Kind, KindDense,
			KindConvolution)
	}
	if weights > maxWeights {
		return fmt.Errorf("a generator of %d weights is too large: set hidden or layers lower, so that there are at "+
			"most %d", weights, maxWeights)
	}
	return nil
}

// layers are the layers of a checked generator's network.
func (s GeneratorSpec) layers(e *encode.Encoder) []nn.Spec {
	if s.Kind == KindConvolution {
		return s.grid(*e.Image()).layers(s.Noise)
	}
	var layers []nn.Spec
	for range s.Layers {
		layers = append(layers, nn.Dense{Out: s.Hidden}, nn.LeakyReLU(leak))
	}
	return append(layers, nn.Dense{Out: e.Width(), Init: nn.Init(nn.GlorotUniform).Times(initialSpread)})
}

// initialSpread widens the first outputs: if all records started in the middle of every range, no query would
// separate teachers.
const initialSpread = 3

// leak is the slope of the rectifiers below zero.
const leak = 0.2

// Choose sets v to a if it is unset, or to b if second is true.
func Choose[T comparable](v *T, unset T, second bool, a, b T) {
	if *v != unset {
		return
	}
	if *v = a; second {
		*v = b
	}
}

// ChooseGenerator fills in an unset kind and width: convolutions for images that doubling can make, else dense
// layers. spec holds the other fields of the generator.
func ChooseGenerator(kind *string, hidden *int, spec GeneratorSpec, e *encode.Encoder) {
	const convolved = 64
	images := e.Image() != nil
	spec.Kind, spec.Hidden = KindConvolution, convolved
	Choose(kind, "", images && spec.Check(e) == nil, KindDense, KindConvolution)
	if *kind == KindConvolution {
		Choose(hidden, 0, false, convolved, 0)
	} else {
		Choose(hidden, 0, images, 128, 256)
	}
}
