package teachers

import (
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Limits on what a round may ask of a node:
const (
	// maxParameters bounds the weights of all teachers of a run: 6 GiB with the optimizer's two moments.
	maxParameters = 1 << 29
	maxSteps      = 10_000
	// maxBatch is small, since teachers with fewer records do the work of a whole batch.
	maxBatch  = 1 << 12
	maxHidden = 4096
	// maxRate keeps weights finite for any number of steps: one step of Adam moves a weight by about the rate.
	maxRate = 100
)

type records struct {
	x       []float32 // shape [len(classes), features]
	classes []int
}

// batch is the content of a question to teachers: how they train, what they train on in the round, and the records
// to judge.
type batch interface {
	GetTeacher() *conclavev1.TeacherSpec
	GetTraining() *conclavev1.Tensor
	GetTrainingClasses() []uint32
	GetQueries() *conclavev1.Tensor
	GetQueryClasses() []uint32
}

type asked struct {
	spec              teacherSpec
	standard          bool
	steps, batch      int
	vote              conclavev1.TeacherSpec_Vote
	training, queries records
}

// coin reports whether teachers answer at random and train nothing.
func (a *asked) coin() bool { return a.vote == conclavev1.TeacherSpec_VOTE_COIN }

// readBatch checks the whole batch, so that nothing is trained for one that cannot be answered.
func readBatch(p *question.Public, q batch) (a *asked, err error) {
	teacher := q.GetTeacher()
	if teacher == nil {
		return nil, errors.New("the question does not specify its teachers; set teacher")
	}
	a = &asked{
		steps: int(teacher.Steps), batch: int(teacher.Batch), vote: teacher.Vote,
		standard: teacher.Features == conclavev1.TeacherSpec_FEATURES_STANDARD,
	}
	if a.spec, err = specOf(p, teacher); err != nil {
		return nil, err
	}
	if a.training, err = readRecords(p, q.GetTraining(), q.GetTrainingClasses()); err != nil {
		return nil, fmt.Errorf("training records: %w", err)
	}
	if a.queries, err = readRecords(p, q.GetQueries(), q.GetQueryClasses()); err != nil {
		return nil, fmt.Errorf("queries: %w", err)
	}
	if len(a.queries.classes) == 0 {
		return nil, errors.New("a round without queries; ask at least one")
	}
	return a, nil
}

// readRecords unpacks generated records. It refuses a record that no encoder makes: clamping it would answer
// another question than was asked.
func readRecords(p *question.Public, t *conclavev1.Tensor, classes []uint32) (records, error) {
	rows := 0
	if t != nil {
		if len(t.Shape) != 2 {
			return records{}, fmt.Errorf("a tensor of %d dimensions; send one row per record", len(t.Shape))
		}
		if int64(t.Shape[1]) != int64(p.Features) {
			return records{}, fmt.Errorf("they have %d features, the schema %d; use the same schema on both sides",
				t.Shape[1], p.Features)
		}
		rows = int(t.Shape[0])
	}
	if len(classes) != rows || len(t.GetData()) != 4*rows*p.Features {
		return records{}, fmt.Errorf("%d records of %d features come with %d classes and %d bytes; "+
			"send a class and %d bytes for each", rows, p.Features, len(classes), len(t.GetData()), 4*p.Features)
	}
	x, err := safetensors.Floats(t.GetData())
	if err != nil {
		return records{}, err
	}
	for i, v := range x {
		if !(v >= 0 && v <= 1) { // also true for NaN
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return records{}, errors.New("a generated record is not finite: the student's training has diverged; " +
					"lower its learning rates")
			}
			return records{}, fmt.Errorf("feature %d of record %d is outside [0, 1]; "+
				"send records as the schema's encoder makes them", i%p.Features, i/p.Features)
		}
	}
	out := make([]int, rows)
	for i, c := range classes {
		if int64(c) >= int64(p.Classes) {
			return records{}, fmt.Errorf("record %d is of class %d; the schema's classes are 0 to %d",
				i, c, p.Classes-1)
		}
		out[i] = int(c)
	}
	return records{x, out}, nil
}
