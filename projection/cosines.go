package projection

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/kernel"
)

// NewCosines projects images, channels last, to the coefficients of their side x side lowest frequencies in each
// channel: a truncated two-dimensional discrete cosine transform of type II (Ahmed, Natarajan, Rao 1974).
//
// Its directions are orthonormal and the same for everybody. They hold most of the energy of natural images, so
// that gradients along a few of them are useful. It has no bins.
func NewCosines(height, width, channels, side int) (*Projection, error) {
	features, directions := height*width*channels, side*side*channels
	switch {
	case height < 1 || width < 1 || channels < 1:
		return nil, fmt.Errorf("cosines of images of %d x %d with %d channels; all must be at least 1", height, width,
			channels)
	case side < 1 || side > min(height, width):
		return nil, fmt.Errorf("cosines of %d x %d frequencies of images of %d x %d; use 1 to %d", side, side, height,
			width, min(height, width))
	case features > maxMatrix/directions:
		return nil, fmt.Errorf("cosines of %d x %d frequencies of images of %d x %d are more than %d numbers; use "+
			"fewer frequencies", side, side, height, width, maxMatrix)
	}
	data := make([]float32, features*directions)
	for i := range height {
		for j := range width {
			for u := range side {
				for v := range side {
					value := float32(cosine(u, i, height) * cosine(v, j, width))
					for c := range channels {
						data[((i*width+j)*channels+c)*directions+(u*side+v)*channels+c] = value
					}
				}
			}
		}
	}
	return &Projection{spec: Spec{Features: features, Directions: directions},
		matrix: kernel.Of(data, features, directions)}, nil
}

// cosine is the value at index i of n of the wave with frequency u, normalized to length 1.
func cosine(u, i, n int) float64 {
	scale := math.Sqrt(2 / float64(n))
	if u == 0 {
		scale = math.Sqrt(1 / float64(n))
	}
	return scale * math.Cos(math.Pi*(float64(i)+0.5)*float64(u)/float64(n))
}
