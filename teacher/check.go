package teacher

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/nn"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Bounds of what a round may ask of a node, whoever asks.
const (
	// maxAnswerBytes keeps an answer below gRPC's 4 MiB with room for the
	// fields around packed votes.
	maxAnswerBytes = 4<<20 - 1024
	// maxParameters bounds the weights of all teachers of a run: with the
	// optimizer's two moments 768 MiB.
	maxParameters = 64 << 20
	maxSteps      = 10_000
	maxBatch      = 1 << 20
	maxHidden     = 4096
	// maxRate keeps weights finite over any number of steps: one of Adam moves
	// a weight by about the rate.
	maxRate = 100
)

// answerClasses: a vote is 0, fake, or 1, real.
const answerClasses = 2

// records are generated records with their classes.
type records struct {
	x       []float32 // shape [len(classes), features]
	classes []int
}

// asked is a vote question that was checked.
type asked struct {
	spec              teacherSpec
	standard          bool
	steps, batch      int
	vote              conclavev1.TeacherSpec_Vote
	training, queries records
}

// checkVote checks all of a question, so that nothing is trained for one that
// cannot be answered. Its errors are about the question alone: they travel to
// the student and must not depend on the node's records.
func (n *Node) checkVote(q *conclavev1.VoteQuestion) (a *asked, err error) {
	if q.GetTeacher() == nil {
		return nil, errors.New("the question does not say how teachers learn; set its teacher")
	}
	a = &asked{steps: int(q.Teacher.Steps), batch: int(q.Teacher.Batch), vote: q.Teacher.Vote, standard: q.Teacher.Features == conclavev1.TeacherSpec_FEATURES_STANDARD}
	if a.spec, err = n.checkTeacher(q.Teacher); err != nil {
		return nil, err
	}
	if a.training, err = n.checkRecords(q.Training, q.TrainingClasses); err != nil {
		return nil, fmt.Errorf("training records: %w", err)
	}
	if a.queries, err = n.checkRecords(q.Queries, q.QueryClasses); err != nil {
		return nil, fmt.Errorf("queries: %w", err)
	}
	queries := len(a.queries.classes)
	if queries == 0 {
		return nil, errors.New("a round without queries; ask at least one")
	}
	if q.AnswerClasses != answerClasses {
		return nil, fmt.Errorf("a vote between %d classes; this node votes between 2, real and fake", q.AnswerClasses)
	}
	if size := n.cfg.Teachers * rowBytes(queries, answerClasses); size > maxAnswerBytes {
		return nil, fmt.Errorf("the votes of %d teachers on %d queries take %d bytes of at most %d; ask fewer queries in a round", n.cfg.Teachers, queries, size, maxAnswerBytes)
	}
	return a, nil
}

// checkTeacher checks how teachers shall learn and vote, and returns what
// describes them for the life of a run.
func (n *Node) checkTeacher(t *conclavev1.TeacherSpec) (teacherSpec, error) {
	rate, decay := float64(t.LearningRate), float64(t.WeightDecay)
	spec := teacherSpec{
		Models: n.cfg.Teachers, Features: n.features, Classes: n.classes,
		Rate: rate, Decay: decay, Seed: t.Seed ^ n.seed,
	}
	switch t.Features {
	case conclavev1.TeacherSpec_FEATURES_PLAIN:
	case conclavev1.TeacherSpec_FEATURES_STANDARD:
		spec.Features += len(n.numbers)
	default:
		return teacherSpec{}, fmt.Errorf("teacher features %v are not known to this node; update it", t.Features)
	}
	switch t.Model {
	case conclavev1.TeacherSpec_MODEL_LOGISTIC:
	case conclavev1.TeacherSpec_MODEL_HIDDEN:
		if t.Hidden < 1 || t.Hidden > maxHidden {
			return teacherSpec{}, fmt.Errorf("teachers with a hidden layer of %d units; use 1 to %d", t.Hidden, maxHidden)
		}
		spec.Hidden = int(t.Hidden)
	default:
		return teacherSpec{}, fmt.Errorf("teacher model %v is not known to this node; update it", t.Model)
	}
	switch {
	case !knownVote(t.Vote):
		return teacherSpec{}, fmt.Errorf("vote rule %v is not known to this node; update it", t.Vote)
	case int64(t.Classes) != int64(n.classes):
		return teacherSpec{}, fmt.Errorf("the run has %d classes, the schema %d; use the same schema at both sides", t.Classes, n.classes)
	case spec.weights() > maxParameters:
		return teacherSpec{}, fmt.Errorf("%d teachers of %d classes have %d weights, more than %d; use a smaller hidden layer", n.cfg.Teachers, n.classes, spec.weights(), maxParameters)
	case t.Steps < 1 || t.Steps > maxSteps:
		return teacherSpec{}, fmt.Errorf("teachers train %d steps in each round; use 1 to %d", t.Steps, maxSteps)
	case t.Batch < 1 || t.Batch > maxBatch:
		return teacherSpec{}, fmt.Errorf("teachers train on batches of %d records; use 1 to %d", t.Batch, maxBatch)
	case !(rate > 0 && rate <= maxRate):
		return teacherSpec{}, fmt.Errorf("the teachers' learning rate is %v; use one above 0 and at most %d", rate, maxRate)
	// Decay may be 1/rate up to the rounding of the two to float32.
	case !(decay >= 0 && rate*decay < 1+1e-6):
		return teacherSpec{}, fmt.Errorf("the teachers' weight decay is %v at a learning rate of %v; use one of at least 0 and below 1/rate", decay, rate)
	}
	return spec, nil
}

// checkRecords unpacks generated records. A record that no encoder makes is
// refused: a clamped one would be another question than was asked.
func (n *Node) checkRecords(t *conclavev1.Tensor, classes []uint32) (records, error) {
	rows := 0
	if t != nil {
		if len(t.Shape) != 2 {
			return records{}, fmt.Errorf("a tensor of %d dimensions; send one row per record", len(t.Shape))
		}
		if int64(t.Shape[1]) != int64(n.features) {
			return records{}, fmt.Errorf("they have %d features, the schema %d; use the same schema at both sides", t.Shape[1], n.features)
		}
		rows = int(t.Shape[0])
	}
	if len(classes) != rows || len(t.GetData()) != 4*rows*n.features {
		return records{}, fmt.Errorf("%d records of %d features come with %d classes and %d bytes; send a class and %d bytes for each", rows, n.features, len(classes), len(t.GetData()), 4*n.features)
	}
	x, err := nn.Floats(t.GetData())
	if err != nil {
		return records{}, err
	}
	for i, v := range x {
		if !(v >= 0 && v <= 1) { // not a number is neither
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return records{}, errors.New("a generated record is not finite: the student's training has diverged; lower its learning rates")
			}
			return records{}, fmt.Errorf("feature %d of record %d is outside [0, 1]; send records as the schema's encoder makes them", i%n.features, i/n.features)
		}
	}
	out := make([]int, rows)
	for i, c := range classes {
		if int64(c) >= int64(n.classes) {
			return records{}, fmt.Errorf("record %d is of class %d; the schema's classes are 0 to %d", i, c, n.classes-1)
		}
		out[i] = int(c)
	}
	return records{x, out}, nil
}
