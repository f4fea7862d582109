package round

import (
	"context"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// register stores a run, unless its student has as many open ones as it may.
func (rs *Rounds) register(ctx context.Context, r coordinator.Run) (existing bool, err error) {
	rs.opening.Lock()
	defer rs.opening.Unlock()
	if err := rs.lookForOpen(ctx); err != nil {
		return false, err
	}
	rs.mu.Lock()
	_, known := rs.open[r.Name]
	ofStudent := 0
	for _, by := range rs.open {
		if by == r.By {
			ofStudent++
		}
	}
	rs.mu.Unlock()
	if !known && ofStudent >= rs.MostOpen {
		return false, fault.TooManyf("student %q has %d runs open, the most it may have; close "+
			"some, or have an operator cancel them", r.By, ofStudent)
	}
	existing, err = rs.Store.OpenRun(ctx, rs.Lead, r)
	if err == nil && !existing {
		rs.mu.Lock()
		rs.open[r.Name] = r.By
		rs.mu.Unlock()
	}
	return existing, err
}

// lookForOpen reads which runs are open, once.
func (rs *Rounds) lookForOpen(ctx context.Context) error {
	rs.mu.Lock()
	known := rs.open != nil
	rs.mu.Unlock()
	if known {
		return nil
	}
	open := map[string]string{}
	for name := range rs.Datasets {
		runs, err := rs.Store.Runs(ctx, name)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if !r.Closed {
				open[r.Name] = r.By
			}
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.open = open
	return nil
}

// dropped forgets a run that was closed.
func (rs *Rounds) dropped(name string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.runs, name)
	delete(rs.open, name)
}

// InUse is the number of runs that are kept in memory.
func (rs *Rounds) InUse() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.runs)
}
