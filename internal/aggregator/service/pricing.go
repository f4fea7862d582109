package service

import (
	"context"
	"sync"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// pricing lets each student have one plan priced at a time: with filter pld that takes a processor up to
// some seconds.
type pricing struct {
	mu        sync.Mutex
	byStudent map[string]*turn
}

// turn is a student's.
type turn struct {
	lifetime.Turn
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
	if err := t.Lock(ctx); err != nil {
		return err
	}
	defer t.Unlock()
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
		t = &turn{Turn: lifetime.NewTurn()}
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
