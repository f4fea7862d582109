package drs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// Errors that a caller may want to tell apart with errors.Is.
var (
	// ErrScores means that scores are not probabilities.
	ErrScores = errors.New("unusable scores")
	// ErrTries means that a source yields too few accepted candidates.
	ErrTries = errors.New("too few candidates are accepted")
)

// Source makes the next candidates, at least one, with the probability that each is real.
// They should be independent draws of one distribution.
type Source[T any] func() (candidates []T, scores []float64, err error)

// Accepted is the result of rejection sampling.
type Accepted[T any] struct {
	// Records are the accepted candidates.
	Records []T
	// Tried is the number of candidates that were tried, without the burn-in.
	Tried int
	// Largest is the largest log-odds so far, Gamma the last shift.
	Largest, Gamma float64
}

// Accept takes n candidates from a source. It accepts a candidate of score D, with d = logit D, with the
// probability sigmoid(F),
//
//	F = d - d_max - log(1 - exp(d - d_max - 1e-6)) - gamma
//
// d_max is the largest d so far, starting with a burn-in. gamma is the burn-in's percentile of the rest of F.
// If d_max rises late, earlier candidates were accepted too easily: a larger burn-in makes that rare. Scores
// are cut to [1e-7, 1-1e-7].
//
// Errors match [ErrScores] if a score is not a probability, and [ErrTries] if the allowed number of candidates
// does not yield n. After ErrTries, and after errors of the source and of ctx, the records accepted so far are
// returned with the error.
func Accept[T any](ctx context.Context, o Options, n int, rng *rand.Rand, next Source[T]) (*Accepted[T], error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fmt.Errorf("drs: %d records; ask for 0 or more", n)
	}
	a := &Accepted[T]{}
	if n == 0 {
		return a, nil
	}
	var burn []float64
	for len(burn) < o.Burn {
		_, odds, err := draw(ctx, next)
		if err != nil {
			return a, err
		}
		burn = append(burn, odds...)
	}
	t := newThreshold(burn, o.Percentile)
	for len(a.Records) < n {
		candidates, odds, err := draw(ctx, next)
		if err != nil {
			return a, err
		}
		for i, d := range odds {
			if a.Tried == n*o.Tries {
				return a, fmt.Errorf("drs: %w: %d of %d after %d tries; lower percentile, which accepts more, or use "+
					"a generator without rejection", ErrTries, len(a.Records), n, a.Tried)
			}
			a.Tried++
			t.saw(d)
			if a.Largest, a.Gamma = t.largest, t.gamma(); rng.Float64() >= t.acceptance(d) {
				continue
			}
			if a.Records = append(a.Records, candidates[i]); len(a.Records) == n {
				break
			}
		}
	}
	return a, nil
}

// draw takes the next candidates with their log-odds.
func draw[T any](ctx context.Context, next Source[T]) ([]T, []float64, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	candidates, scores, err := next()
	if err != nil {
		return nil, nil, fmt.Errorf("drs: candidates: %w", err)
	}
	if len(candidates) == 0 || len(candidates) != len(scores) {
		return nil, nil, fmt.Errorf("drs: %w: %d for %d candidates, want as many, and at least 1", ErrScores,
			len(scores), len(candidates))
	}
	odds := make([]float64, len(scores))
	for i, p := range scores {
		if !(p >= 0 && p <= 1) {
			return nil, nil, fmt.Errorf("drs: %w: candidate %d has the score %v, want a probability from 0 to 1",
				ErrScores, i, p)
		}
		odds[i] = logOdds(p)
	}
	return candidates, odds, nil
}
