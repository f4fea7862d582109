package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// memory is what a process holds, in bytes, and the seconds of processor time that it has
// had.
type memory struct{ rss, heap, stack, cpu float64 }

// block is a stretch of rounds of one side. Times are for a round: with several students,
// whose rounds overlap, the time of the clock is less than a student waits.
type block struct {
	rounds             float64
	seconds            float64 // of the clock
	cpu                float64 // seconds of the server's processor time
	etcd, etcdRequests float64 // seconds spent waiting for etcd, and requests to it
	down, up           float64 // bytes on all sockets
}

type result struct {
	size         size
	alone, idle  memory // the aggregator without nodes, and with all of them
	after        memory // after all rounds
	fds          float64
	joining      time.Duration
	blocks, bare []block // of the aggregator and of the bare server, in turn
}

// measure measures all sizes, one after the other.
func measure(ctx context.Context, p plan) ([]*result, error) {
	dir := p.keep
	if dir == "" {
		// A short path: etcd listens on a socket below it.
		temporary, err := os.MkdirTemp("", "scale")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	} else if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	most := 0
	for _, s := range p.sizes {
		most = max(most, s.nodes)
	}
	w, err := newWorkshop(ctx, dir, most)
	if err != nil {
		return nil, err
	}
	var results []*result
	for _, s := range p.sizes {
		r, err := measureSize(ctx, w, s, p)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", s, err)
		}
		fmt.Fprintf(os.Stderr, "%v: %.1f rounds/s, bare %.1f, ratio %.2f\n", s, 1/median(seconds(r.blocks)),
			1/median(seconds(r.bare)), median(r.ratios()))
		results = append(results, r)
	}
	return results, nil
}

func measureSize(ctx context.Context, w *workshop, s size, p plan) (result *result, err error) {
	rig, err := w.start(ctx, s, p.audit)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			rig.kill()
			return
		}
		err = rig.stop()
	}()
	return rig.measure(ctx, p)
}

func (r *rig) measure(ctx context.Context, p plan) (*result, error) {
	res := &result{size: r.size}
	var err error
	if err = r.aggregator.open(ctx, r.size.all()); err != nil {
		return nil, err
	}
	if res.alone, _, err = r.aggregator.memory(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := r.join(ctx, r.aggregator); err != nil {
		return nil, err
	}
	res.joining = time.Since(began)
	if err := pause(ctx, p.settle); err != nil {
		return nil, err
	}
	if res.idle, res.fds, err = r.aggregator.memory(ctx); err != nil {
		return nil, err
	}
	if err := r.join(ctx, r.echo); err != nil {
		return nil, err
	}
	for _, s := range []*side{r.aggregator, r.echo} {
		if _, err := s.ask(ctx, p.warm, 0); err != nil {
			return nil, err
		}
	}
	for i := range p.blocks {
		order := []*side{r.aggregator, r.echo}
		if i%2 == 1 { // so that drift of the machine affects both sides equally
			order[0], order[1] = order[1], order[0]
		}
		for _, s := range order {
			b, err := r.block(ctx, s, p.block)
			if err != nil {
				return nil, err
			}
			if s == r.aggregator {
				res.blocks = append(res.blocks, b)
			} else {
				res.bare = append(res.bare, b)
			}
		}
	}
	res.after, _, err = r.aggregator.memory(ctx)
	return res, err
}

// block asks rounds of a side for as long as a block lasts.
func (r *rig) block(ctx context.Context, s *side, atLeast time.Duration) (block, error) {
	before, wireBefore, err := r.read(ctx, s)
	if err != nil {
		return block{}, err
	}
	began := time.Now()
	rounds, err := s.ask(ctx, 1, atLeast)
	if err != nil {
		return block{}, err
	}
	took := time.Since(began).Seconds()
	after, wireAfter, err := r.read(ctx, s)
	if err != nil {
		return block{}, err
	}
	each := func(name string) float64 { return (after[name] - before[name]) / rounds }
	wire := func(direction string) float64 {
		name := socketBytes(s.name, direction)
		return (wireAfter[name] - wireBefore[name]) / rounds
	}
	return block{
		rounds: rounds, seconds: took / rounds, cpu: each(cpuMetric), etcd: each(etcdSeconds),
		etcdRequests: each(etcdCount),
		down:         wire("down"), up: wire("up"),
	}, nil
}

func (r *rig) read(ctx context.Context, s *side) (server, nodes gauges, err error) {
	server, err = scrape(ctx, s.monitor)
	nodes, nerr := scrape(ctx, r.nodesMonitor)
	return server, nodes, errors.Join(err, nerr)
}

// memory is what a side's process holds, and its open files.
func (s *side) memory(ctx context.Context) (memory, float64, error) {
	g, err := scrape(ctx, s.monitor)
	if err == nil && g[rssMetric] == 0 {
		err = errors.New("its metrics hold no resident memory; measure on Linux")
	}
	return memory{g[rssMetric], g[heapMetric], g[stackMetric], g[cpuMetric]}, g[fdsMetric], err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ratios are the aggregator's rounds per second over the bare server's, of each pair of
// blocks.
func (r *result) ratios() []float64 {
	out := make([]float64, len(r.blocks))
	for i := range out {
		out[i] = r.bare[i].seconds / r.blocks[i].seconds
	}
	return out
}

func seconds(blocks []block) []float64 { return of(blocks, func(b block) float64 { return b.seconds }) }

func of(blocks []block, figure func(block) float64) []float64 {
	out := make([]float64, len(blocks))
	for i, b := range blocks {
		out[i] = figure(b)
	}
	return out
}
