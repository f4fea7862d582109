package pgb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/partition/encode"
)

// uneven is the share of the candidates below which an effective size causes a warning.
const uneven = 0.1

type boosted struct {
	s *pipeline.Session
	// pool are the candidates, with their odds by the mixture of the selected discriminators.
	pool  pipeline.Rows
	plays *Plays
	width int
}

// boost plays the game of boosting. Candidates come from all stored generators and the last average. They are
// weighted until no stored discriminator tells them from real records.
func boost(ctx context.Context, of pipeline.Options, _ pipeline.Source, s *pipeline.Session) (pipeline.Source, error) {
	o := of.(*StageOptions)
	b := &boosted{s: s, width: s.Encoder.Width()}
	s.Watch("selection", 0, o.Rounds)
	if err := b.candidates(o); err != nil {
		return nil, err
	}
	scores := s.Scores(b.pool)
	if o.Complements {
		for _, row := range scores[:len(s.Pairs)] {
			opposite := make([]float64, len(row))
			for b, d := range row {
				opposite[b] = 1 - d
			}
			scores = append(scores, opposite)
		}
	}
	n, options := len(b.pool.Classes), o.Options
	if options.Rate == 0 && o.Complements {
		options.Rate = TightRate(n, options.Rounds)
	}
	game, err := New(scores, options)
	if err == nil {
		err = game.Within(b.pool.Classes)
	}
	if err != nil {
		return nil, failed(err)
	}
	selector, err := b.selector(ctx, o)
	if err != nil {
		return nil, err
	}
	b.plays, err = game.Play(ctx, selector, func(done, rounds int) { s.Watch("selection", done, rounds) })
	if err != nil {
		return nil, failed(err)
	}
	b.pool.Odds = pipeline.LogOdds(b.plays.Mixed(scores))
	return b, b.report(len(scores))
}

// failed marks an error that ends the stage for good.
func failed(err error) error {
	if errors.Is(err, ErrScores) {
		return fmt.Errorf("%w: %w", pipeline.ErrStage, err)
	}
	return err
}

// report notes the result of the game.
func (b *boosted) report(discriminators int) error {
	var used int
	for _, share := range b.plays.Mixture {
		if share > 0 {
			used++
		}
	}
	effective, err := ratio.EffectiveSize(b.plays.Weights)
	if err != nil {
		return err
	}
	n := len(b.pool.Classes)
	b.s.Note("Boosting weighted %d records of %d generators in %d rounds, with %d of %d discriminators; their "+
		"effective sample size is %.0f.", n, len(b.s.Pairs)+1, len(b.plays.Selected), used, discriminators, effective)
	if effective < uneven*float64(n) {
		b.s.Note("Very few records have most of the weight, and the rows repeat them; fewer pgb.rounds, a lower " +
			"pgb.rate, or pgb.complements keeps more records.")
	}
	return nil
}

// candidatesOf is the number of generated records that are weighted.
func candidatesOf(o *StageOptions, rows int) int {
	if o.Candidates > 0 {
		return o.Candidates
	}
	return min(pipeline.MostCandidates, max(10_000, 5*rows))
}

// candidates draws the records that are weighted.
func (b *boosted) candidates(o *StageOptions) (err error) {
	rng := rand.New(rand.NewPCG(b.s.Seed, 0xb0057))
	n := candidatesOf(o, b.s.Rows)
	var classes []int
	have := b.s.Counts(n)
	for c, wanted := range b.s.Counts(b.s.Rows) {
		if wanted > 0 && have[c] == 0 {
			return failed(fmt.Errorf("%w: none of %d candidates has class %d, and %d rows need it; raise "+
				"pgb.candidates", ErrScores, n, c+1, wanted))
		}
		classes = append(classes, slices.Repeat([]int{c}, have[c])...)
	}
	rng.Shuffle(n, func(i, j int) { classes[i], classes[j] = classes[j], classes[i] })
	generators := len(b.s.Pairs) + 1
	for i := range generators {
		of := classes[i*n/generators : (i+1)*n/generators]
		var x []float32
		if i > 0 {
			x, err = b.s.Pairs[i-1].Generator.Records(of, rng)
		} else {
			x, err = b.s.Records(of, rng)
		}
		if err != nil {
			return err
		}
		b.pool.X = append(b.pool.X, x...)
		b.pool.Classes = append(b.pool.Classes, of...)
	}
	return nil
}

// selector returns the selector of discriminators.
func (b *boosted) selector(ctx context.Context, o *StageOptions) (Selector, error) {
	if o.Private {
		asks, err := newSelecting(b.s, o)
		if err != nil || !b.s.Masked {
			return asks, err
		}
		means, err := asks.noisyScores(ctx, o.Complements)
		return BestResponse(means), err
	}
	b.s.Note("NOT PRIVATE: boosting selected discriminators with the real rows of evaluate.train.")
	return BestResponse(b.realScores(o.Complements)), nil
}

// realScores returns the mean probabilities that the discriminators give real rows. NOT PRIVATE.
func (b *boosted) realScores(complements bool) []float64 {
	e := encode.New(b.s.Real.Schema()).Encode(b.s.Real)
	means := make([]float64, len(b.s.Pairs))
	for j, row := range b.s.Scores(pipeline.Rows{X: e.Features, Classes: e.Classes}) {
		for _, v := range row {
			means[j] += v / float64(len(row))
		}
	}
	if complements {
		for _, m := range means[:len(b.s.Pairs)] {
			means = append(means, 1-m)
		}
	}
	return means
}

// Draw draws n candidates by their weights.
func (b *boosted) Draw(_ context.Context, n int) (pipeline.Rows, string, error) {
	rng := rand.New(rand.NewPCG(b.s.Seed, 0xda7a))
	places, err := ratio.Resample(b.plays.Weights, n, rng.Uint64())
	if err != nil {
		return pipeline.Rows{}, "", err
	}
	distinct := map[int]bool{}
	for _, at := range places {
		distinct[at] = true
	}
	note := fmt.Sprintf("%d rows were drawn by weight; %d of them are different.", n, len(distinct))
	rng.Shuffle(n, func(i, j int) { places[i], places[j] = places[j], places[i] })
	return b.pool.Take(places, b.width), note, nil
}

// Class draws candidates of a class by their weights.
func (b *boosted) Class(class int, rng *rand.Rand) func(context.Context, int) (pipeline.Rows, error) {
	var members []int
	var weights []float64
	for i, c := range b.pool.Classes {
		if c == class {
			members, weights = append(members, i), append(weights, b.plays.Weights[i])
		}
	}
	return func(_ context.Context, n int) (pipeline.Rows, error) {
		if len(members) == 0 {
			return pipeline.Rows{}, fmt.Errorf("%w: no candidate has this class; raise pgb.candidates", ErrScores)
		}
		places, err := ratio.Resample(weights, n, rng.Uint64())
		if err != nil {
			return pipeline.Rows{}, err
		}
		for i, at := range places {
			places[i] = members[at]
		}
		return b.pool.Take(places, b.width), nil
	}
}
