package drs

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
)

const name = "drs"

// Stage registers rejection sampling. It asks no rounds.
var Stage = pipeline.Stage{
	Name: name, Options: pipeline.Defaults(DefaultOptions), Follows: "because drs rejects what pgb weighted",
	Discriminators: func(f pipeline.Followed) bool { return slices.Contains(f.Post, name) },
	Apply: func(_ context.Context, o pipeline.Options, so pipeline.Source, s *pipeline.Session) (pipeline.Source,
		error) {
		return &rejecting{*o.(*Options), so, s}, nil
	},
}

// rejecting draws the rows of another source that a discriminator finds real.
type rejecting struct {
	o  Options
	so pipeline.Source
	s  *pipeline.Session
}

// Draw draws n rows by rejection. Each class gets its share of them.
func (r *rejecting) Draw(ctx context.Context, n int) (pipeline.Rows, string, error) {
	rng := rand.New(rand.NewPCG(r.s.Seed, 0xd25))
	var kept pipeline.Rows
	all := 0
	for c, wanted := range r.s.Counts(n) {
		if wanted == 0 {
			continue
		}
		rows, tried, err := r.accept(ctx, c, wanted, rng)
		if err != nil {
			err = fmt.Errorf("class %d of %d: %w", c+1, r.s.Classes, err)
			if ctx.Err() == nil { // a second try would end the same way
				err = fmt.Errorf("%w: %w", pipeline.ErrStage, err)
			}
			return pipeline.Rows{}, "", err
		}
		all += tried
		kept = kept.With(rows)
	}
	places := rng.Perm(len(kept.Classes))
	note := fmt.Sprintf("Rejection kept %d of %d records that a generator made.", n, all)
	return kept.Take(places, r.s.Encoder.Width()), note, nil
}

// Class draws rows of a class by rejection.
func (r *rejecting) Class(class int, rng *rand.Rand) func(context.Context, int) (pipeline.Rows, error) {
	return func(ctx context.Context, n int) (pipeline.Rows, error) {
		rows, _, err := r.accept(ctx, class, n, rng)
		return rows, err
	}
}

// accept draws n rows of a class, with the probability that each is real, from a limited number of tries.
func (r *rejecting) accept(ctx context.Context, class, n int, rng *rand.Rand) (rows pipeline.Rows, tried int,
	err error) {
	const batch = 1024
	draw, width := r.so.Class(class, rng), r.s.Encoder.Width()
	accepted, err := Accept(ctx, r.o, n, rng, func() ([]pipeline.Rows, []float64, error) {
		candidates, err := draw(ctx, batch)
		if err != nil {
			return nil, nil, err
		}
		list, scores := make([]pipeline.Rows, batch), make([]float64, batch)
		for i := range list {
			list[i] = candidates.Take([]int{i}, width)
			scores[i] = 1 / (1 + math.Exp(-candidates.Odds[i]))
		}
		return list, scores, nil
	})
	if err != nil {
		return rows, 0, err
	}
	for _, one := range accepted.Records {
		rows = rows.With(one)
	}
	return rows, accepted.Tried, nil
}

// Options are the section `drs:` of a run.yaml. This section configures `post: [drs]`; see docs/boosting.md.
type Options struct {
	// Percentile is the percentile of generated records that is kept with probability one half. A lower one keeps
	// more, less exactly. 0 keeps records in proportion to D/(1-D), which may need very many.
	Percentile float64 `yaml:"percentile"`
	// Burn is the number of records of each class that are looked at first, for the largest score and the percentile;
	// they are not used.
	Burn int `yaml:"burn"`
	// Tries is the number of records for each wanted one after which the run ends with an error.
	Tries int `yaml:"tries"`
}

// DefaultOptions returns the options of a run without this section. Zero values are not defaults: start from these.
func DefaultOptions() Options { return Options{Percentile: 95, Burn: 10_000, Tries: 1000} }

// Validate reports every option that cannot work.
func (o Options) Validate() error {
	c := pipeline.NewChecks("drs")
	c.Check(o.Percentile >= 0 && o.Percentile <= 100, "percentile: %v is not between 0 (no shift) and 100",
		o.Percentile)
	c.Between("burn", float64(o.Burn), 1, 1e8)
	c.Between("tries", float64(o.Tries), 1, 1e8)
	return c.Err()
}
