package service

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Only one plan of a student is priced at a time, and other students do not wait for it.
func TestPlansOfAStudentArePricedInTurn(t *testing.T) {
	var p turns
	priced := func(ctx context.Context, student string, epsilon float64) error {
		return p.price(ctx, student, &spec.Spec{
			Budget: privacy.Budget{Epsilon: epsilon, Delta: 1e-5, Filter: privacy.FilterPLD},
			Plan: privacy.Plan{{Kind: "votes", Count: 3,
				Mechanism: privacy.Event{Kind: privacy.LNMax, Lambda: 0.1}}},
		}, coordinator.Dataset{})
	}
	eve := p.enter("eve")
	testkit.Must(t, eve.Lock(t.Context())) // a plan of eve is being priced
	ended, end := context.WithCancel(t.Context())
	end()
	if err := priced(ended, "eve", 2); !errors.Is(err, context.Canceled) {
		t.Errorf("another plan of eve: %v", err)
	}
	testkit.Must(t, priced(t.Context(), "lab", 2))
	eve.Unlock()
	p.leave("eve", eve)
	testkit.Must(t, priced(t.Context(), "eve", 2))
	if err := priced(t.Context(), "eve", 0.1); !errors.Is(err, privacy.ErrOverBudget) {
		t.Errorf("a plan that costs too much: %v", err)
	}
	if len(p.of) != 0 {
		t.Errorf("left: %v", p.of)
	}
}

// One caller's operations run one after the other, and an error frees the turn.
func TestThingsAreDoneInTurn(t *testing.T) {
	var p turns
	failed := errors.New("it failed")
	var busy, most int
	var mu sync.Mutex
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		busy += by
		most = max(most, busy)
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			err := p.one(t.Context(), "eve", func() error {
				count(1)
				runtime.Gosched()
				count(-1)
				return failed
			})
			if !errors.Is(err, failed) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if most != 1 || len(p.of) != 0 {
		t.Errorf("%d at a time, %d turns are left", most, len(p.of))
	}
}
