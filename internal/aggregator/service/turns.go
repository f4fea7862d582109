package service

import (
	"context"
	"sync"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// turns let each caller do one slow or large thing at a time. The zero value is ready for use.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

// turn is one caller's turn.
type turn struct {
	lifetime.Turn
	users int // callers that have or await it
}

// one calls do when no other call with this caller's name is in progress. It returns the error of do, or why ctx
// ended first.
func (p *turns) one(ctx context.Context, caller string, do func() error) error {
	t := p.enter(caller)
	defer p.leave(caller, t)
	if err := t.Lock(ctx); err != nil {
		return err
	}
	defer t.Unlock()
	return do()
}

func (p *turns) enter(caller string) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.of[caller]
	if t == nil {
		t = &turn{Turn: lifetime.NewTurn()}
		if p.of == nil {
			p.of = map[string]*turn{}
		}
		p.of[caller] = t
	}
	t.users++
	return t
}

func (p *turns) leave(caller string, t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(p.of, caller)
	}
}

// price prices a plan if that is slow, before anybody holds a lock. With filter pld it can take a few seconds, and
// package privacy caches the result. The errors equal those that would refuse the run.
func (p *turns) price(ctx context.Context, student string, run *spec.Spec, d coordinator.Dataset) error {
	if run.Budget.Filter != privacy.FilterPLD {
		return nil
	}
	return p.one(ctx, student, func() error {
		if _, err := run.Plan.Check(run.Budget); err != nil || d.Budget.Filter != privacy.FilterPLD {
			return err
		}
		_, err := run.Plan.Check(d.Budget)
		return err
	})
}
