package coordinator

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Remove drops what is stored of a run that has ended: its releases, its spec, and its place in
// the queue. Its entries in the ledger stay, and so does its name where it was opened: no other
// run can have it. The error matches ErrQueue or ErrRunOpen where it has not ended, and ErrNoRun.
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
		if kvs[0] == nil { // it was never opened: nothing in the ledger has its name
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
			Name: r.Name, Dataset: r.Dataset, Budget: r.Budget, By: r.By, RunState: RunState{
				Opened: r.Opened, Closed: true, Head: r.Head, Releases: r.Releases, Forgotten: r.Releases,
				EpsilonSpent: r.EpsilonSpent, Removed: true,
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
