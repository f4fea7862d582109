package shape

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/reducer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// reduced is a reducer's result of several passes over the nodes. It is released like a sum over privacy units, with
// the sensitivity from the reducer.
type reduced struct {
	*vector
	Noise
	reduction *reducer.Reduction
}

func newReduced(of reducer.Reducer, r *conclavev1.Round, planned privacy.Planned, run *spec.Spec) (*reduced, error) {
	reduction, err := of.Read(r.GetParams())
	if err != nil {
		return nil, fault.Invalidf("%w", err)
	}
	result, err := newVector(r.GetSum(), math.MaxInt64/2)
	if err != nil {
		return nil, err
	}
	bound := reduction.L2
	if result.norm == conclavev1.Vector_NORM_L1 {
		bound = reduction.L1
	}
	switch {
	case r.GetSelection() != nil:
		return nil, fault.Invalidf("round %d of run %q selects by %s, which needs several passes; ask it in a round "+
			"of its own",
			r.GetNumber(), r.GetRun(), of.Kind)
	case result.norm == conclavev1.Vector_NORM_EACH, result.perTeacher, result.entries != reduction.Entries,
		result.bound != bound:
		return nil, fault.Invalidf(
			"the round gives %s the shape {%v}, but its parameters give %d entries with sensitivity %d (L2) and %d "+
				"(L1); install matching versions of student and aggregator",
			of.Kind,
			r.GetSum(),
			reduction.Entries,
			reduction.L2,
			reduction.L1,
		)
	}
	noise, err := newNoise(result, planned, run)
	if err != nil {
		return nil, err
	}
	return &reduced{vector: result, Noise: noise, reduction: reduction}, nil
}

func (q *reduced) Read(*conclavev1.WorkRequest, uint32) ([]int64, error) {
	return nil, errors.New("got an answer without a question")
}

// Queries is 1, however many passes there are.
func (q *reduced) Queries() int64 { return 1 }

// Largest counts ten bytes per number, the largest encoding.
func (q *reduced) Largest() int { return releaseFrame + 10*q.entries }

// Answer adds noise to the result.
func (q *reduced) Answer(src *gnmax.Source, result []int64, r *conclavev1.Release) (int64, error) {
	noisy, err := q.Add(src, result)
	if err != nil {
		return 0, fmt.Errorf("draw the noise of the reduced sum: %w", err)
	}
	r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: noisy, Scale: uint64(q.bound)}}
	return 1, nil
}

// Reduce computes the result.
func (q *reduced) Reduce(ctx context.Context, ask round.Pass) ([]int64, error) {
	return q.reduction.Run(ctx, func(params []byte, sum *conclavev1.Vector) ([]int64, bool, error) {
		v, err := newVector(sum, mostCount/maxFitted)
		if err != nil {
			return nil, false, err
		}
		v.fitted = true
		return ask(pass{v}, params, sum)
	})
}

// pass is one pass over the nodes. It is not released.
type pass struct{ *vector }

func (pass) Queries() int64 { return 0 }

func (pass) Largest() int { return 0 }

func (pass) Answer(*gnmax.Source, []int64, *conclavev1.Release) (int64, error) {
	return 0, errors.New("sums of a pass are not released")
}
