package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
)

// End says how a queued run ends.
type End struct {
	// State is a final state.
	State  State
	Reason string
	// Claim is the claim of the worker that reports the end; empty for an end that needs no worker.
	Claim   string
	Results []Result
}

// Finish ends a queued run and drops its run.yaml. If the run is open, the same transaction closes it in the ledger,
// so that no ended run can spend anything and every ledger can be verified. Ending it the same way twice does
// nothing; other errors match ErrQueue.
func (s *Store) Finish(ctx context.Context, lead *Leadership, name string, end End) (q Submission, err error) {
	const op = "finish run"
	if !end.State.Final() {
		return q, fmt.Errorf("%s %q: %q is not a final state", op, name, end.State)
	}
	if len(end.Results) > maxResults {
		return q, fmt.Errorf("%s %q: %d files; the maximum is %d", op, name, len(end.Results), maxResults)
	}
	err = update(func() (bool, error) {
		var kv *mvccpb.KeyValue
		var err error
		if kv, q, err = s.submission(ctx, op, name); err != nil {
			return false, err
		}
		switch {
		case q.State == end.State && q.Claim == end.Claim && end.Claim != "":
			return true, nil // the answer was lost
		case q.State.Final(), end.Claim != "" && (q.State != Running || q.Claim != end.Claim):
			return false, moved(q, "finished")
		}
		q.State, q.Reason, q.Results = end.State, bounded(end.Reason), end.Results
		q.Ended = ledger.FormatTime(s.now())
		value, err := encode(q)
		if err != nil {
			return false, err
		}
		puts := []clientv3.Op{clientv3.OpPut(string(kv.Key), value), clientv3.OpDelete(s.runFileKey(name)),
			clientv3.OpDelete(s.studyKey(name))}
		return s.commitEnd(ctx, op, lead, name, kv, puts)
	})
	return q, err
}

// commitEnd commits the end of a queued run, and closes the run if it is open.
func (s *Store) commitEnd(ctx context.Context, op string, lead *Leadership, name string, submission *mvccpb.KeyValue,
	puts []clientv3.Op) (bool, error) {
	conditions := []clientv3.Cmp{unchanged(submission)}
	l, err := s.load(ctx, op, name)
	switch {
	case errors.Is(err, ErrNoRun): // never opened, and must not be opened meanwhile
		return s.commit(ctx, op, lead, append(conditions, absent(s.runKey(name))), puts...)
	case err != nil:
		return false, err
	case l.run.Closed:
		return s.commit(ctx, op, lead, conditions, puts...)
	}
	closing, err := s.closing(lead, l, "", "")
	if err != nil {
		return false, fmt.Errorf("%s %q: %w", op, name, err)
	}
	revision, err := s.commitRun(ctx, op, lead, l, conditions, append(puts, closing...)...)
	s.wrote(l.run.Dataset)
	return revision > 0, err
}

// closing closes l's run with a ledger entry, and returns the puts. A pending question is charged first. manifest is
// the SHA-256 of the list of its files, if any, and by the student that gives them out.
func (s *Store) closing(lead *Leadership, l *loaded, manifest, by string) ([]clientv3.Op, error) {
	entries, err := s.abandoning(lead, l, 0, "")
	if err != nil {
		return nil, err
	}
	entry := s.newEntry(lead, ledger.EntryClose, l.run.Dataset)
	entry.Run, entry.EpsilonSpent, entry.Manifest = l.run.Name, l.run.EpsilonSpent, manifest
	if manifest != "" && by != cmp.Or(l.run.Student, l.run.By) {
		entry.By = by
	}
	puts, err := s.appendEntries(&l.dataset, append(entries, entry)...)
	if err != nil {
		return nil, err
	}
	l.run.Closed, l.run.Head, l.run.Manifest = true, l.dataset.Head.Hash, manifest
	// The next round may have stored parts of a release that was never charged.
	next := s.releaseKey(l.run.Name, l.run.Releases)
	return append(puts, clientv3.OpDelete(partsPrefix(next), clientv3.WithPrefix())), nil
}

// Remove drops the stored parts of a run that has ended: its releases, its spec, and its place in the queue. Its ledger
// entries stay. If it was opened its name stays reserved too. The error matches ErrQueue or ErrRunOpen if it has not
// ended, and ErrNoRun.
func (s *Store) Remove(ctx context.Context, lead *Leadership, name string) (removed Run, err error) {
	const op = "remove run"
	if err := checkName("run", name); err != nil {
		return Run{}, err
	}
	err = update(func() (bool, error) {
		kvs, _, err := s.read(ctx, op, s.runKey(name), s.submissionKey(name))
		if err != nil {
			return false, err
		}
		if kvs[0] == nil && kvs[1] == nil {
			return false, fmt.Errorf("%w: %q", ErrNoRun, name)
		}
		var conditions []clientv3.Cmp
		ops := []clientv3.Op{
			clientv3.OpDelete(s.submissionKey(name)), clientv3.OpDelete(s.runFileKey(name)),
			clientv3.OpDelete(s.studyKey(name)),
			clientv3.OpDelete(s.releasesPrefix(name), clientv3.WithPrefix()),
		}
		if kvs[1] == nil {
			conditions = append(conditions, absent(s.submissionKey(name)))
		} else {
			q, err := decodeSubmission(kvs[1])
			if err != nil {
				return false, err
			}
			if !q.State.Final() {
				return false, moved(q, "removed")
			}
			removed = Run{Name: q.Name, Dataset: q.Dataset, By: q.By}
			conditions = append(conditions, unchanged(kvs[1]))
		}
		if kvs[0] == nil { // never opened, so the ledger does not have its name
			return s.commit(ctx, op, lead, append(conditions, absent(s.runKey(name))), ops...)
		}
		r, err := decode[Run](kvs[0])
		if err != nil {
			return false, err
		}
		if !r.Closed {
			return false, fmt.Errorf("%w: %q; cancel it first", ErrRunOpen, name)
		}
		removed = Run{
			Name: r.Name, Dataset: r.Dataset, Budget: r.Budget, By: r.By, Student: r.Student, RunState: RunState{
				Opened: r.Opened, Closed: true, Head: r.Head, Releases: r.Releases, Abandoned: r.Abandoned,
				Forgotten: r.Releases, EpsilonSpent: r.EpsilonSpent, Removed: true,
				Entries: r.PlanEntries(),
			},
		}
		value, err := encode(removed)
		if err != nil {
			return false, err
		}
		defer s.wrote(r.Dataset)
		return s.commit(ctx, op, lead, append(conditions, unchanged(kvs[0])),
			append(ops, clientv3.OpPut(s.runKey(name), value))...)
	})
	return removed, err
}
