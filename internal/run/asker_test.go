package run

import (
	"context"
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// recorder keeps the first round that is asked after that of the class counts.
type recorder struct {
	asker
	round *conclavev1.Round
}

var errRecorded = errors.New("recorded")

func (r *recorder) Ask(_ context.Context, _ string, round *conclavev1.Round) (*conclavev1.Release, error) {
	if round.Kind == runspec.ClassCounts {
		return &conclavev1.Release{Teachers: 1, Answer: &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{
			Values: []int64{1 << 20, 1 << 20}, Scale: plan.CountScale,
		}}}, nil
	}
	r.round, round.Run = round, r.run
	return nil, errRecorded
}

// asked is the first question of a run after the class counts.
func asked(t *testing.T, s *runfile.Spec, schema *partition.Schema, p *plan.Plan) *conclavev1.Round {
	t.Helper()
	r := &recorder{asker: asker{run: s.Name, plan: p, teachers: s.Teachers}}
	student, err := s.Training(schema).Student(p)
	if err == nil {
		err = startWith(student, s, schema, p, r, func(int, int) {})
	}
	testkit.Must(t, err)
	nothing := func() error { return nil }
	err = student.Learn(t.Context(), r, p.Rounds, nothing, func(pipeline.Progress) {})
	if !errors.Is(err, errRecorded) {
		t.Fatalf("asked nothing: %v", err)
	}
	return r.round
}
