package coordinator

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
)

// End is how a run of the queue ends.
type End struct {
	// State is a final one.
	State  State
	Reason string
	// Claim is that of the worker whose word it is; empty for an end that none of them
	// has a say in.
	Claim   string
	Results []Result
}

// Finish ends a run of the queue. Where it was opened and is not closed, it is closed in the
// ledger in the same transaction, so that no run that ended can spend anything, and every
// ledger can be verified. The run.yaml is dropped. Ending it the same way twice does nothing; other errors
// match ErrQueue.
func (s *Store) Finish(ctx context.Context, lead *Leadership, name string, end End) (q Submission, err error) {
	const op = "finish run"
	if !end.State.Final() {
		return q, fmt.Errorf("%s %q: %q is no end", op, name, end.State)
	}
	if len(end.Results) > maxResults {
		return q, fmt.Errorf("%s %q: %d files; %d are the most", op, name, len(end.Results), maxResults)
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
		puts := []clientv3.Op{clientv3.OpPut(string(kv.Key), value), clientv3.OpDelete(s.runFileKey(name))}
		return s.commitEnd(ctx, op, lead, name, kv, puts)
	})
	return q, err
}

// commitEnd commits the end of a run of the queue, with the closing of the run where it is
// open.
func (s *Store) commitEnd(ctx context.Context, op string, lead *Leadership, name string, submission *mvccpb.KeyValue,
	puts []clientv3.Op) (bool, error) {
	conditions := []clientv3.Cmp{unchanged(submission)}
	l, err := s.load(ctx, op, name)
	switch {
	case errors.Is(err, ErrNoRun): // it was never opened, and must not be meanwhile
		return s.commit(ctx, op, lead, append(conditions, absent(s.runKey(name))), puts...)
	case err != nil:
		return false, err
	case l.run.Closed:
		return s.commit(ctx, op, lead, conditions, puts...)
	}
	closing, err := s.closing(lead, l)
	if err != nil {
		return false, fmt.Errorf("%s %q: %w", op, name, err)
	}
	revision, err := s.commitRun(ctx, op, lead, l, conditions, append(puts, closing...)...)
	s.wrote(l.run.Dataset)
	return revision > 0, err
}

// closing closes l's run with an entry in the ledger, and returns the puts of that.
func (s *Store) closing(lead *Leadership, l *loaded) ([]clientv3.Op, error) {
	entry := s.newEntry(lead, ledger.EntryClose, l.run.Dataset)
	entry.Run, entry.EpsilonSpent = l.run.Name, l.run.EpsilonSpent
	puts, err := s.appendEntry(&l.dataset, entry)
	if err != nil {
		return nil, err
	}
	l.run.Closed, l.run.Head = true, l.dataset.Head.Hash
	// The next round may have parts of a release that was never charged.
	next := s.releaseKey(l.run.Name, l.run.Releases)
	return append(puts, clientv3.OpDelete(partsPrefix(next), clientv3.WithPrefix())), nil
}
