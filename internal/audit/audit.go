package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// batch is the number of runs on one dataset. Opening a run reads the dataset's ledger, so many runs on one
// dataset would be slow.
const batch = 25

// Run audits the cases of o one after another and returns a result for each, or for each view of a masked one. Two
// cores make about 400 runs a second. A violation is a result and not an error. Errors are invalid options, a
// cluster that fails, and a ledger that does not verify.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	cases, err := scenarios(o.Cases, o.budget())
	if err != nil {
		return nil, err
	}
	return run(ctx, cases, o)
}

// run audits cases on a cluster of their own.
func run(ctx context.Context, cases []*scenario, o Options) (results []Result, err error) {
	var sites []string
	var datasets []aggregator.DatasetConfig
	// Room for all runs of a batch, more than the sum of their budgets by any accountant: the dataset's budget is
	// not audited.
	room := privacy.Budget{Epsilon: 4*batch*o.Epsilon + 100, Delta: o.Delta}
	for _, s := range cases {
		for _, t := range trialsOf(s, o.Runs) {
			datasets = append(datasets, aggregator.DatasetConfig{
				Name: t.dataset, SchemaSHA256: schemaSHA256, Unit: unit, Overlap: s.overlap, Budget: room,
			})
		}
		sites = append(sites, s.sites()...)
	}
	slices.Sort(sites)
	sites = slices.Compact(sites)
	c, err := newCluster(ctx, o, datasets, sites)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.serving, func() { cancel(context.Cause(c.serving)) })()
	for _, s := range cases {
		rs, err := c.audit(ctx, s, o)
		if err != nil {
			return results, fmt.Errorf("case %s: %w", s.name, errors.Join(err, context.Cause(ctx)))
		}
		results = append(results, rs...)
	}
	return results, nil
}

// trialsOf divides the runs of both worlds into batches. The worlds alternate, so that drift over time cannot
// distinguish them.
func trialsOf(s *scenario, runs int) []*trials {
	var all []*trials
	for first := 0; first < runs; first += batch {
		for world := range 2 {
			all = append(all, &trials{
				scenario: s, world: world, first: first, runs: min(batch, runs-first),
				dataset: fmt.Sprintf("%s-%d-%d", s.name, world, first),
			})
		}
	}
	return all
}

// audit makes all runs of a case and judges what each view shows.
func (c *cluster) audit(ctx context.Context, s *scenario, o Options) (results []Result, err error) {
	started := time.Now()
	total := 2 * o.Runs
	var mu sync.Mutex
	done := 0
	step := func() {
		mu.Lock()
		defer mu.Unlock()
		if done++; o.Watch != nil {
			o.Watch(s.name, done, total)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.Parallel)
	batches := trialsOf(s, o.Runs)
	for _, t := range batches {
		group.Go(func() error {
			if err := t.make(ctx, c, o, step); err != nil {
				return fmt.Errorf("dataset %s: %w", t.dataset, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	charged := map[string][]privacy.Event{}
	for _, t := range batches {
		maps.Copy(charged, t.charged)
	}
	events, err := common(charged)
	if err != nil {
		return nil, err
	}
	for i, v := range s.views() {
		var observed [2][]float64
		for _, t := range batches {
			for _, xs := range t.observed {
				observed[t.world] = append(observed[t.world], xs[i])
			}
		}
		r, err := judge(observed, events, v, o)
		if err != nil {
			return nil, err
		}
		r.Case, r.Mechanism, r.Rounds, r.Queries = s.name, s.kind, s.rounds, s.rounds*s.queries
		r.Seconds = time.Since(started).Seconds()
		results = append(results, r)
	}
	return results, nil
}
