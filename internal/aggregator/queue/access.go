package queue

import (
	"context"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/certs"
)

// MayAsk decides who may ask rounds of a run and end it. A queued run belongs to the worker that presents its claim
// and, once it has ended, to its submitter and last worker. A run outside the queue belongs to the student that
// opened it.
func (q *Queue) MayAsk(run, opener, claim string, by certs.Identity) error {
	e, queued := q.get(run)
	r := e.record
	switch {
	case !ours(e, opener, by):
		return fault.Deniedf("run %q does not belong to %s; use the certificate that opened or submitted it", run, by)
	case !queued || r.State.Final():
		return nil
	case r.State == coordinator.Waiting:
		return fault.Refusedf("run %q is waiting in the queue; only the worker that claims it may ask for it", run)
	case claim != r.Claim || by.Name != r.Holder:
		return fault.Refusedf("run %q is claimed by worker %q; only that worker may ask for it", run, r.Worker)
	}
	return nil
}

// MayRead refuses information on a run to all but operators and the run's students.
func (q *Queue) MayRead(run, opener string, by certs.Identity) error {
	e, _ := q.get(run)
	if by.Role != certs.RoleOperator && !ours(e, opener, by) {
		return fault.Deniedf("run %q does not belong to %s; use the certificate that opened or submitted it, or an "+
			"operator's", run, by)
	}
	return nil
}

// Fetchable returns a finished run for its submitter. Anyone else gets the same error as for a run that does not
// exist.
func (q *Queue) Fetchable(run string, by certs.Identity) (coordinator.Submission, error) {
	e, _ := q.get(run)
	if by.Role != certs.RoleStudent || by.Name == "" || by.Name != e.record.By {
		return e.record, fault.NotFoundf("%s has not submitted a run %q, or it was removed", by, run)
	}
	state := strings.ReplaceAll(string(e.record.State), "_", " ")
	switch {
	case e.record.State == coordinator.Done:
		return e.record, nil
	case e.record.State.Final():
		return e.record, fault.Refusedf("run %q has no files to fetch, because its state is %q", run, state)
	}
	return e.record, fault.Refusedf("run %q is %s; its files can be fetched after it is done; "+
		"conclave run watch waits for that, and conclave run show names the sites that it waits for", run, state)
}

// Requester names the student that wants a run: its submitter or, outside the queue, the student that opened it.
func (q *Queue) Requester(run, opener string) string {
	if e, queued := q.get(run); queued {
		return e.record.By
	}
	return opener
}

// ours reports whether a student opened, submitted or runs a run.
func ours(e entry, opener string, by certs.Identity) bool {
	return by.Name != "" && slices.Contains([]string{opener, e.record.By, e.record.Holder}, by.Name)
}

// Remove drops the stored data of a run that has ended, for an operator or its requester. A worker that only ran it
// drops nothing.
func (q *Queue) Remove(ctx context.Context, by certs.Identity, run string) (coordinator.Run, error) {
	if err := q.lock(ctx); err != nil {
		return coordinator.Run{}, err
	}
	defer q.turn.Unlock()
	r, err := q.Store.Run(ctx, run)
	if err != nil && !isNoRun(err) {
		return coordinator.Run{}, err
	}
	if by.Role != certs.RoleOperator && (by.Name == "" || by.Name != q.Requester(run, r.By)) {
		return coordinator.Run{}, fault.Deniedf("run %q does not belong to %s; use the certificate that submitted it "+
			"or opened it without the queue, or an operator's", run, by)
	}
	removed, err := q.Store.Remove(q.Lifetime.Leading(), q.Lead, run)
	if err != nil {
		q.stale = true
		return coordinator.Run{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.byName, run)
	q.wake()
	return removed, nil
}
