package teacher

import "github.com/conclave-dp/conclave/nn"

// teacherSpec describes a node's teachers for the life of a run. It is kept with
// their state.
type teacherSpec struct {
	Models, Features, Classes int
	// Hidden is the width of the hidden layer of each class, 0 for none
	// (logistic regression).
	Hidden      int
	Rate, Decay float64
	Seed        uint64
}

// leak is the slope of the teachers' rectifiers below zero.
const leak = 0.2

// weights is the number of weights of all teachers.
func (s teacherSpec) weights() int {
	if s.Hidden > 0 {
		return s.Models * s.Classes * (s.Hidden*(s.Features+1) + s.Hidden + 1)
	}
	return s.Models * s.Classes * (s.Features + 1)
}

// ensemble makes untrained teachers. Their last weights are zeros, so that a
// teacher that never sees a record of some class scores all records of it alike.
func (s teacherSpec) ensemble() (*nn.Ensemble, error) {
	var layers []nn.Spec
	if s.Hidden > 0 {
		layers = append(layers, nn.Dense{Out: s.Hidden}, nn.LeakyReLU(leak))
	}
	return nn.NewEnsemble(nn.EnsembleSpec{
		Models: s.Models, Classes: s.Classes, Input: nn.Vector(s.Features),
		Layers: append(layers, nn.Dense{Out: 1, Init: nn.Zeros}),
		Rate:   s.Rate, Decay: s.Decay, Seed: s.Seed,
	})
}
