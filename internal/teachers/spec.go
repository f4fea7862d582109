package teachers

import (
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
)

// teacherSpec describes a node's teachers for the life of a run. It is kept with
// their state.
type teacherSpec struct {
	Models, Features, Classes int
	// Hidden is the width of the hidden layer of each class, 0 for none (logistic regression). For convolutions it is
	// the number of channels of the first.
	Hidden int
	// Image is the shape of the images, zero for dense teachers.
	Image nn.Shape
	// Shared teachers have one network for all classes, with the class as an input.
	Shared bool
	// Fresh teachers start every round from weights drawn from Start.
	Fresh bool
	Start uint64
	// Cosines is the number of cosine coefficients of an image that teachers see, 0 if they see other features.
	Cosines int
	// Energy teachers have no network.
	Energy      bool
	Rate, Decay float64
	Seed        uint64
}

// leak is the slope of the teachers' rectifiers below zero.
const leak = 0.2

// classWidth is the number of values, or planes of an image, that encode the class for a shared network.
const classWidth = 10

// input is the shape of the records that the teachers' networks see.
func (s teacherSpec) input() nn.Shape {
	if s.Image != (nn.Shape{}) {
		return s.Image
	}
	return nn.Vector(s.Features)
}

// layers are the layers of a network. Its last weights start at zero, so that a teacher without records of a class
// gives all records of that class the same score.
func (s teacherSpec) layers() []nn.Spec {
	var layers []nn.Spec
	if s.Shared {
		layers = append(layers, nn.Embedding{Classes: s.Classes, Width: classWidth})
	}
	switch {
	case s.Image != (nn.Shape{}):
		layers = append(layers,
			nn.Conv2D{Out: s.Hidden, Kernel: 4, Stride: 2, Pad: 1}, nn.LeakyReLU(leak),
			nn.Conv2D{Out: 2 * s.Hidden, Kernel: 4, Stride: 2, Pad: 1}, nn.LeakyReLU(leak))
	case s.Hidden > 0:
		layers = append(layers, nn.Dense{Out: s.Hidden}, nn.LeakyReLU(leak))
	}
	return append(layers, nn.Dense{Out: 1, Init: nn.Zeros})
}

func (s teacherSpec) networks() int {
	if s.Shared {
		return 1
	}
	return s.Classes
}

func (s teacherSpec) weights() (int, error) {
	net, err := nn.NewNetwork(rand.New(rand.NewPCG(0, 0)), s.input(), s.layers()...)
	if err != nil {
		return 0, err
	}
	var each int
	for _, p := range net.Params() {
		each += len(p.Value)
	}
	return s.Models * s.networks() * each, nil
}

// ensemble makes untrained teachers; nil if they have no networks.
func (s teacherSpec) ensemble() (*ensemble.Ensemble, error) {
	if s.Energy {
		return nil, nil
	}
	return ensemble.New(ensemble.Spec{
		Models: s.Models, Classes: s.networks(), Input: s.input(), Layers: s.layers(),
		Rate: s.Rate, Decay: s.Decay, Seed: s.Seed, Fresh: s.Fresh, Start: s.Start,
	})
}
