package service

import (
	"context"
	"sync"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// pricing lets each student have one plan priced at a time: with filter pld that takes a processor up to
// some seconds.
type pricing struct {
	mu        sync.Mutex
	byStudent map[string]*turn
}

// turn holds a token while nothing of a student is priced.
type turn struct {
	token chan struct{}
	users int // that have it, or wait
}

// price prices a plan, where that takes long, before anybody holds a lock: package privacy remembers
// what it comes to. Errors are those that the run would be refused with.
func (p *pricing) price(ctx context.Context, student string, run *spec.Spec, d coordinator.Dataset) error {
	if run.Budget.Filter != privacy.FilterPLD {
		return nil
	}
	t := p.enter(student)
	defer p.leave(student, t)
	select {
	case <-t.token:
		defer func() { t.token <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := run.Plan.Check(run.Budget); err != nil {
		return err
	}
	if d.Budget.Filter != privacy.FilterPLD {
		return nil
	}
	_, err := run.Plan.Check(d.Budget)
	return err
}

func (p *pricing) enter(student string) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.byStudent[student]
	if t == nil {
		t = &turn{token: make(chan struct{}, 1)}
		t.token <- struct{}{}
		if p.byStudent == nil {
			p.byStudent = map[string]*turn{}
		}
		p.byStudent[student] = t
	}
	t.users++
	return t
}

func (p *pricing) leave(student string, t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(p.byStudent, student)
	}
}
