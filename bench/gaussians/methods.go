package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/pipeline/drs"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
)

// methods are the names of the compared methods: the paper's, then the game among discriminators and their opposites. A
// private run pays for one of the two games.
var methods = []string{"last generator", "DRS", "PGB", "PGB + DRS", "PGB, opposites", "PGB, opposites + DRS"}

// methodPGB is the index of the paper's boosting.
const methodPGB = 2

// result is the result of one seed: the points of each method, encoded, and their quality.
type result struct {
	points  [][]float32
	quality []float64
}

// run trains a GAN and takes points by each method.
func (s setting) run(ctx context.Context, seed uint64, noise float64) (*result, error) {
	e, err := encoder()
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 25))
	real := points(s.records, rng)
	options := s.options.ChosenFor(e)
	oracle, err := newNode(real, options, options.Spec(e, 1), noise)
	if err != nil {
		return nil, err
	}
	trainer, err := dpgan.New(s.options, e, 1, seed)
	if err != nil {
		return nil, err
	}
	saves, watches := func() error { return nil }, func(pipeline.Progress) {}
	if err := trainer.Run(ctx, oracle, options.Steps, saves, watches); err != nil {
		return nil, err
	}
	pairs, err := trainer.Pairs()
	if err != nil {
		return nil, err
	}
	if len(pairs) == 0 {
		return nil, errors.New("gaussians: no pairs were kept")
	}
	r := &result{}
	last := pairs[len(pairs)-1]
	r.add(draw(last, s.drawn, rng))

	kept, err := drs.Accept(ctx, s.reject, s.drawn, rng, func() ([][2]float32, []float64, error) {
		x := draw(last, 1000, rng)
		return split(x), probabilities(last, x), nil
	})
	if err != nil {
		return nil, fmt.Errorf("last generator: %w", err)
	}
	r.add(join(kept.Records))

	var candidates []float32
	for _, p := range pairs {
		candidates = append(candidates, draw(p, s.candidates, rng)...)
	}
	// Only sums over real records are asked for, in whole steps; each record adds at most bound.
	scores, sums := make([][]float64, len(pairs)), make([]int64, len(pairs))
	for j, p := range pairs {
		scores[j] = probabilities(p, candidates)
		for _, v := range probabilities(p, real) {
			sums[j] += int64(v * bound)
		}
	}
	if err := s.boost(ctx, r, candidates, scores, sums, rng); err != nil {
		return nil, err
	}
	scores, sums = opposites(scores, sums, s.records)
	return r, s.boost(ctx, r, candidates, scores, sums, rng)
}

// boost adds the points of a game among discriminators, and those that rejection keeps.
func (s setting) boost(ctx context.Context, r *result, candidates []float32, scores [][]float64, sums []int64,
	rng *rand.Rand) error {
	plays, err := s.play(ctx, scores, sums)
	if err != nil {
		return err
	}
	of := drawer(plays.Weights)
	boosted := make([]float32, 0, 2*s.drawn)
	for range s.drawn {
		b := of(rng)
		boosted = append(boosted, candidates[2*b:2*b+2]...)
	}
	r.add(boosted)

	mixed, all := plays.Mixed(scores), split(candidates)
	kept, err := drs.Accept(ctx, s.reject, s.drawn, rng, func() ([][2]float32, []float64, error) {
		b := of(rng)
		return all[b : b+1], mixed[b : b+1], nil
	})
	if err != nil {
		return fmt.Errorf("boosted candidates: %w", err)
	}
	r.add(join(kept.Records))
	return nil
}

// opposites adds for each discriminator one that calls real what it calls fake, to the scores and to the sums over
// n real records. A record still adds at most bound to a sum.
func opposites(scores [][]float64, sums []int64, n int) ([][]float64, []int64) {
	scores, sums = slices.Clone(scores), slices.Clone(sums)
	for j, row := range slices.Clone(scores) {
		opposite := make([]float64, len(row))
		for b, v := range row {
			opposite[b] = 1 - v
		}
		scores, sums = append(scores, opposite), append(sums, int64(n)*bound-sums[j])
	}
	return scores, sums
}

func (r *result) add(x []float32) {
	r.points, r.quality = append(r.points, x), append(r.quality, quality(x, nil))
}

// play plays the game, by the exponential mechanism if it is private.
func (s setting) play(ctx context.Context, scores [][]float64, sums []int64) (*pgb.Plays, error) {
	game, err := pgb.New(scores, s.game)
	if err != nil {
		return nil, err
	}
	if s.epsilon == 0 {
		means := make([]float64, len(sums))
		for j, v := range sums {
			means[j] = float64(v) / bound / float64(s.records)
		}
		return game.Play(ctx, pgb.BestResponse(means), nil)
	}
	m, err := gnmax.NewExponential(s.selection, bound)
	if err != nil {
		return nil, err
	}
	return game.Play(ctx, selector{m, gnmax.NewSource(), sums, float64(s.records)}, nil)
}

// selector does the aggregator's selection. The number of records is public.
type selector struct {
	mechanism *gnmax.ExponentialMechanism
	source    *gnmax.Source
	sums      []int64
	records   float64
}

func (s selector) Select(_ context.Context, _ int, expected []float64) (int, error) {
	u := make([]int64, len(expected))
	for j, v := range expected {
		u[j] = s.sums[j] - int64(math.Round(bound*s.records*v))
	}
	return s.mechanism.Select(s.source, u)
}

// draw draws points from a pair's generator.
func draw(p pipeline.Pair, n int, rng *rand.Rand) []float32 {
	x := make([]float32, 2*n)
	p.Generator.Sample(x, make([]int, n), rng)
	return x
}

// probabilities returns the probabilities of points, computed batch by batch.
func probabilities(p pipeline.Pair, x []float32) []float64 {
	const batch = 1000
	var all []float64
	for len(x) > 0 {
		n := min(batch, len(x)/2)
		all = p.Probabilities(all, x[:2*n], make([]int, n))
		x = x[2*n:]
	}
	return all
}

// drawer draws indexes by weights.
func drawer(weights []float64) func(*rand.Rand) int {
	up, sum := make([]float64, len(weights)), 0.0
	for i, w := range weights {
		sum += w
		up[i] = sum
	}
	return func(rng *rand.Rand) int {
		at, low, high := sum*rng.Float64(), 0, len(up)-1
		for low < high {
			if mid := (low + high) / 2; up[mid] <= at {
				low = mid + 1
			} else {
				high = mid
			}
		}
		return low
	}
}

func split(x []float32) [][2]float32 {
	out := make([][2]float32, len(x)/2)
	for i := range out {
		out[i] = [2]float32{x[2*i], x[2*i+1]}
	}
	return out
}

func join(x [][2]float32) []float32 {
	var out []float32
	for _, p := range x {
		out = append(out, p[0], p[1])
	}
	return out
}
