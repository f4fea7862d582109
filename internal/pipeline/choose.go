package pipeline

import "github.com/conclave-dp/conclave/partition/encode"

// Choose gives an option that is unset the first of two values, or the second where second is
// set.
func Choose[T comparable](v *T, unset T, second bool, a, b T) {
	if *v != unset {
		return
	}
	if *v = a; second {
		*v = b
	}
}

// ChooseGenerator gives the kind and the width of a generator that are unset values: of
// convolutions for images that can be made by doubling, else of dense layers. The rest of the
// generator is that of spec.
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
