package run

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// scoreBound is the fixed-point unit of a score.
const scoreBound = 1 << 20

// selector carries the selections of boosting over the wire: the first one with the
// discriminators, whose scores nodes add up, the others by the sums that the aggregator
// holds. An aggregator that does not hold them, since it took over from another, is made
// to collect them again, which costs nothing.
type selector struct {
	*oracle
	learned *pipeline.Learned
	// first is the round of the first selection.
	first   uint64
	records int
	scored  []*conclavev1.ScoreSum_Scored
	scores  *conclavev1.Round // the first round, once it was asked
	failed  error             // why nothing can be selected
}

// scoredOf describes the discriminators of pairs.
func scoredOf(pairs []pipeline.Pair, width int) []*conclavev1.ScoreSum_Scored {
	var list []*conclavev1.ScoreSum_Scored
	for _, p := range pairs {
		d := p.Discriminator
		s := &conclavev1.ScoreSum_Scored{Discriminator: described(d.Spec()), Weights: safetensors.Bytes(d.Weights())}
		if d.Spec().Standard {
			mean, scale := d.Units().Units()
			s.Mean, s.Scale = tensor(mean, width), tensor(scale, width)
		}
		list = append(list, s)
	}
	return list
}

// scoreRound is the first round of selections, as nodes are sent it.
func scoreRound(
	run string, number uint64, scored []*conclavev1.ScoreSum_Scored, s *conclavev1.Selection, nothing bool,
) *conclavev1.Round {
	r := roundOf(run, number, runspec.Scores,
		&conclavev1.ScoreSum{Discriminators: scored, Bound: scoreBound, Nothing: nothing},
		question.Shape{Sum: &question.Vector{
			Entries: len(scored), Bound: scoreBound, Norm: question.Each, Rate: 1,
		}})
	r.Selection = s
	return r
}

// Select asks for the selection of round t, from 0: expected are the mean probabilities that
// the discriminators give the candidates.
func (o *selector) Select(ctx context.Context, t int, expected []float64) (int, error) {
	if o.failed != nil {
		return 0, o.failed
	}
	number := o.first + uint64(t)
	s := &conclavev1.Selection{
		Round: o.first, Records: uint64(o.records), Complements: len(expected) > len(o.scored),
	}
	for _, e := range expected {
		s.Expected = append(s.Expected, int64(math.Round((2*e-1)*scoreBound)))
	}
	r := &conclavev1.Round{Run: o.run, Number: number, Kind: runspec.Scores, Selection: s}
	if t == 0 {
		r = scoreRound(o.run, number, o.scored, s, o.coin)
		o.scores = r
	}
	release, err := o.ask(ctx, runspec.Selections, r)
	if t > 0 && errors.Is(err, student.ErrNotHeld) {
		if _, err := o.client.AskAndHold(ctx, o.scores, o.waiting); err != nil {
			return 0, err
		}
		release, err = o.ask(ctx, runspec.Selections, r)
	}
	if err != nil {
		return 0, err
	}
	selected := release.GetSelected()
	if selected == nil || int64(selected.Index) >= int64(len(expected)) {
		return 0, fmt.Errorf("the release of round %d is no selection among %d discriminators", release.GetRound(), len(expected))
	}
	o.learned.Took(release.GetLedgerHash(), int(release.GetTeachers()), release.GetEpsilonSpent())
	return int(selected.Index), nil
}
