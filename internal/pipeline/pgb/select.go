package pgb

import (
	"context"
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// selecting carries the selections of boosting over the wire. The first has the discriminators, whose scores
// nodes add up; the others use the sums that the aggregator caches. An aggregator without them, because it took
// over from another, has to collect them again, which costs nothing.
type selecting struct {
	s *pipeline.Session
	// first is the round of the first selection.
	first   uint64
	records int
	scored  []*conclavev1.ScoreSum_Scored
	sums    *conclavev1.Round // the first round, after it was asked
}

// newSelecting describes the discriminators that can be selected.
func newSelecting(s *pipeline.Session, o *StageOptions) (*selecting, error) {
	n, err := s.Learned.Records(o.Records)
	return &selecting{
		s: s, first: uint64(len(s.Learned.Receipts)), records: n, scored: described(s.Pairs, s.Encoder.Width()),
	}, err
}

func described(pairs []pipeline.Pair, width int) []*conclavev1.ScoreSum_Scored {
	var list []*conclavev1.ScoreSum_Scored
	for _, p := range pairs {
		d := p.Discriminator
		s := &conclavev1.ScoreSum_Scored{Discriminator: d.Spec().Describe(), Weights: safetensors.Bytes(d.Weights())}
		if d.Spec().Standard {
			mean, scale := d.Units().Units()
			s.Mean, s.Scale = pipeline.Tensor(mean, width), pipeline.Tensor(scale, width)
		}
		list = append(list, s)
	}
	return list
}

// scoreRound is the first round of selections, as it is sent to nodes.
func scoreRound(scored []*conclavev1.ScoreSum_Scored, nothing bool) *conclavev1.Round {
	return question.Ask(runspec.Scores,
		&conclavev1.ScoreSum{Discriminators: scored, Bound: ScoreBound, Nothing: nothing},
		scoreShape(len(scored), ScoreBound, false))
}

// noisyScores asks once for the sums of the scores with noise. All selections follow from them and cost
// nothing. It returns the estimated mean scores of real records, for each discriminator and, with complements,
// its opposite.
func (a *selecting) noisyScores(ctx context.Context, complements bool) ([]float64, error) {
	n := len(a.scored)
	bound := togetherBound(n)
	r := question.Ask(runspec.Scores, &conclavev1.ScoreSum{
		Discriminators: a.scored, Bound: bound, Nothing: a.s.Ask.Baseline(), Together: true,
	}, scoreShape(n, int64(bound), true))
	r.Number = a.first
	release, err := a.s.Ask.Ask(ctx, runspec.Selections, r)
	if err != nil {
		return nil, err
	}
	sums := release.GetSum().GetValues()
	if len(sums) != n {
		return nil, fmt.Errorf("the release of round %d is not a sum of %d scores", release.GetRound(), n)
	}
	a.s.Learned.Took(pipeline.PaidBy(release))
	means := make([]float64, n, 2*n)
	for j, v := range sums {
		means[j] = min(max(0.5+0.5*float64(v)/float64(bound)/float64(a.records), 0), 1)
	}
	if complements {
		for _, m := range means {
			means = append(means, 1-m)
		}
	}
	return means, nil
}

// Select asks for the selection of round t, from 0. expected are the mean probabilities that the discriminators
// give the candidates.
func (a *selecting) Select(ctx context.Context, t int, expected []float64) (int, error) {
	s := &conclavev1.Selection{
		Round: a.first, Records: uint64(a.records), Complements: len(expected) > len(a.scored),
	}
	for _, e := range expected {
		s.Expected = append(s.Expected, int64(math.Round((2*e-1)*ScoreBound)))
	}
	var release *conclavev1.Release
	var err error
	if t == 0 {
		a.sums = scoreRound(a.scored, a.s.Ask.Baseline())
		a.sums.Number, a.sums.Selection = a.first, s
		release, err = a.s.Ask.Ask(ctx, runspec.Selections, a.sums)
	} else {
		r := &conclavev1.Round{Number: a.first + uint64(t), Kind: runspec.Scores, Selection: s}
		release, err = a.s.Ask.AskCached(ctx, runspec.Selections, r, a.sums)
	}
	if err != nil {
		return 0, err
	}
	selected := release.GetSelected()
	if selected == nil || int64(selected.Index) >= int64(len(expected)) {
		return 0, fmt.Errorf("the release of round %d is not a selection among %d discriminators", release.GetRound(),
			len(expected))
	}
	a.s.Learned.Took(pipeline.PaidBy(release))
	return int(selected.Index), nil
}

func messages(_ pipeline.Options, f pipeline.Followed, p plan.Stages) []pipeline.StageMessages {
	planned, ok := p.Of(runspec.Selections)
	if !ok {
		return nil
	}
	content := fmt.Sprintf("%d numbers: the sum of each stored discriminator's scores over the site's privacy units; "+
		"the aggregator keeps it in memory, and releases %d selections", f.Kept, planned.Count)
	if f.Masked {
		content = fmt.Sprintf("%d numbers: the sum of each stored discriminator's scores over the site's privacy "+
			"units, with noise and masks; the noisy total is released", f.Kept)
	}
	return []pipeline.StageMessages{{
		AnswerName: "score sums", Times: 1, Numbers: f.Kept, Largest: pipeline.MostUnits * ScoreBound,
		AnswerContent: content,
		Asked:         "discriminators",
		AskedContent:  fmt.Sprintf("the weights of %d stored discriminators, once; no records", f.Kept),
	}}
}
