package teachers

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// errFresh is public: it depends only on the question.
var errFresh = errors.New("fresh teachers are for gradients only; keep teachers over rounds to let them vote")

// specOf checks how teachers are to train and vote, and returns their description for the life of a run.
func specOf(p *question.Public, t *conclavev1.TeacherSpec) (teacherSpec, error) {
	rate, decay := float64(t.LearningRate), float64(t.WeightDecay)
	spec := teacherSpec{
		Models: p.Teachers, Features: p.Features, Classes: p.Classes,
		Shared: t.Shared, Fresh: t.Fresh, Start: t.Seed, Rate: rate, Decay: decay, Seed: t.Seed ^ p.Seed,
	}
	switch t.Features {
	case conclavev1.TeacherSpec_FEATURES_PLAIN:
	case conclavev1.TeacherSpec_FEATURES_STANDARD:
		spec.Features += len(p.Numbers)
	case conclavev1.TeacherSpec_FEATURES_COSINES:
		if _, err := cosineSide(p, int(t.Cosines)); err != nil {
			return teacherSpec{}, err
		}
		spec.Features, spec.Cosines = int(t.Cosines), int(t.Cosines)
	default:
		return teacherSpec{}, fmt.Errorf("teacher features %v are unknown to this node; update the node", t.Features)
	}
	switch t.Model {
	case conclavev1.TeacherSpec_MODEL_LOGISTIC:
	case conclavev1.TeacherSpec_MODEL_HIDDEN, conclavev1.TeacherSpec_MODEL_CONVOLUTION:
		if t.Hidden < 1 || t.Hidden > maxHidden {
			return teacherSpec{}, fmt.Errorf("teachers with a hidden layer of %d units; use 1 to %d",
				t.Hidden, maxHidden)
		}
		spec.Hidden = int(t.Hidden)
	case conclavev1.TeacherSpec_MODEL_ENERGY:
		if t.Vote != conclavev1.TeacherSpec_VOTE_GRADIENT && t.Vote != conclavev1.TeacherSpec_VOTE_COIN {
			return teacherSpec{}, errors.New("teachers without a network are for gradients only; use a network to " +
				"let them vote")
		}
		// Nothing is trained, so the spec needs no further fields.
		return teacherSpec{
			Models: spec.Models, Features: spec.Features, Classes: spec.Classes, Cosines: spec.Cosines,
			Seed: spec.Seed, Energy: true, Fresh: true,
		}, checkClasses(p, t)
	default:
		return teacherSpec{}, fmt.Errorf("teacher model %v is unknown to this node; update the node", t.Model)
	}
	if t.Model == conclavev1.TeacherSpec_MODEL_CONVOLUTION {
		if p.Schema.Image == nil || spec.Features != p.Features {
			return teacherSpec{}, errors.New("teachers that convolve need records that are images, and plain features")
		}
		spec.Image = p.Image()
	}
	if t.Shared && spec.Hidden == 0 {
		return teacherSpec{}, errors.New("teachers without a hidden layer that get the class as input cannot see " +
			"differences within a class; use a network per class, or a hidden layer")
	}
	if err := checkClasses(p, t); err != nil {
		return teacherSpec{}, err
	}
	switch {
	case t.Fresh && t.Vote != conclavev1.TeacherSpec_VOTE_GRADIENT && t.Vote != conclavev1.TeacherSpec_VOTE_COIN:
		return teacherSpec{}, errFresh
	case !knownVote(t.Vote) && t.Vote != conclavev1.TeacherSpec_VOTE_GRADIENT:
		return teacherSpec{}, fmt.Errorf("vote rule %v is unknown to this node; update the node", t.Vote)
	case t.Steps < 1 || int(t.Steps) > mostSteps(p):
		return teacherSpec{}, fmt.Errorf("teachers train %d steps in each round; use 1 to %d", t.Steps, mostSteps(p))
	case t.Batch < 1 || t.Batch > maxBatch:
		return teacherSpec{}, fmt.Errorf("teachers train on batches of %d records; use 1 to %d", t.Batch, maxBatch)
	case !(rate > 0 && rate <= maxRate):
		return teacherSpec{}, fmt.Errorf("the teachers' learning rate is %v; use one above 0 and at most %d",
			rate, maxRate)
	// Rounding to float32 may make decay slightly larger than 1/rate.
	case !(decay >= 0 && rate*decay < 1+1e-6):
		return teacherSpec{}, fmt.Errorf("the teachers' weight decay is %v at a learning rate of %v; "+
			"use one of at least 0 and below 1/rate", decay, rate)
	}
	weights, err := spec.weights()
	if t.Fresh {
		weights /= p.Teachers * spec.networks() // only one network is stored
	}
	if err == nil && weights > maxParameters {
		err = fmt.Errorf("%d teachers of %d classes have %d weights, more than %d; "+
			"use a smaller hidden layer, or fresh teachers", p.Teachers, p.Classes, weights, maxParameters)
	}
	return spec, err
}

// mostSteps is the largest number of steps that a node's teachers may train in a round: its operator's limit, or
// that of the kind.
func mostSteps(p *question.Public) int {
	if p.MaxSteps > 0 {
		return min(p.MaxSteps, maxSteps)
	}
	return maxSteps
}

func checkClasses(p *question.Public, t *conclavev1.TeacherSpec) error {
	if int64(t.Classes) != int64(p.Classes) {
		return fmt.Errorf("the run has %d classes, the schema %d; use the same schema on both sides",
			t.Classes, p.Classes)
	}
	return nil
}
