package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaderRecord is the value of the leader's key.
type leaderRecord struct {
	Name string `json:"name"`
	// Address is where the leader can be seen to be alive, host:port; empty if it gave none.
	Address string `json:"address,omitempty"`
}

// Leadership is the right to write, as long as it lasts.
type Leadership struct {
	store *Store
	name  string
	fence int64 // the create revision of the leader's key
	base  int64 // base of a restored ledger; see FenceBaseKey
	lease clientv3.LeaseID

	ctx    context.Context
	end    context.CancelCauseFunc
	keeper sync.WaitGroup
}

// Lead waits until name leads, and returns. It leads until [Leadership.Resign],
// until another process takes over, or until etcd has not been reached for ttl
// (whole seconds, at least one; a standby waits that long after a crash). ctx
// bounds the waiting only.
//
// A leadership left behind under the same name, by a process that crashed, is
// taken over at once: it can no longer write, see the package's comment.
func (s *Store) Lead(ctx context.Context, name string, ttl time.Duration) (*Leadership, error) {
	return s.LeadAt(ctx, name, "", ttl)
}

// LeadAt is [Store.Lead] for a process that will listen at an address, host:port, that standbys can reach. They check
// whether anything listens there, and take over as soon as nothing does, long before the lease ends; see
// successor.go.
func (s *Store) LeadAt(ctx context.Context, name, address string, ttl time.Duration) (*Leadership, error) {
	if err := checkName("leader", name); err != nil {
		return nil, err
	}
	if ttl < time.Second {
		return nil, fmt.Errorf("lead: lease of %v; it must be at least 1s", ttl)
	}
	var seen meeting
	for {
		kvs, revision, err := s.read(ctx, "lead", s.leaderKey(), s.fenceBaseKey())
		if err != nil {
			return nil, err
		}
		switch leader := kvs[0]; {
		case leader == nil:
			var base int64
			if kvs[1] != nil {
				if base, err = decode[int64](kvs[1]); err != nil {
					return nil, err
				}
			}
			l, err := s.acquire(ctx, leaderRecord{name, address}, ttl, base)
			if err != nil || l != nil {
				return l, err
			}
		default:
			record, err := decode[leaderRecord](leader)
			if err != nil {
				return nil, err
			}
			if seen.fence != leader.CreateRevision {
				seen = meeting{fence: leader.CreateRevision}
			}
			// An etcd in this process has no other process's leader that still runs.
			mine := record.Name == name || s.config.Embedded != nil
			if !mine && !s.awaitGone(ctx, record, revision, &seen) {
				if ctx.Err() != nil {
					return nil, fmt.Errorf("lead: %q leads and did not resign: %w", record.Name, context.Cause(ctx))
				}
			} else if err := s.depose(ctx, leader); err != nil {
				return nil, err
			}
		}
	}
}

// acquire creates the leader's key; it returns nil if another process was faster, or this one slower than its lease.
func (s *Store) acquire(ctx context.Context, who leaderRecord, ttl time.Duration, base int64) (*Leadership, error) {
	value, err := encode(who)
	if err != nil {
		return nil, err
	}
	bounded, cancel := s.request(ctx)
	defer cancel()
	seconds := int64((ttl + time.Second - 1) / time.Second)
	lease, err := s.client.Grant(bounded, seconds)
	if err != nil {
		return nil, s.wrap(ctx, "lead", err)
	}
	bounded, cancel = s.request(ctx)
	defer cancel()
	var fence int64
	r, err := s.client.Txn(bounded).
		If(absent(s.leaderKey())).
		Then(clientv3.OpPut(s.leaderKey(), value, clientv3.WithLease(lease.ID))).
		Commit()
	switch {
	case err == nil && r.Succeeded:
		fence = r.Header.GetRevision()
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return nil, nil // this process stood still for longer than its lease
	case err != nil && unanswered(err):
		// The key may have been created; the lease tells which process created it.
		kvs, _, rerr := s.read(ctx, "lead", s.leaderKey())
		if rerr == nil && kvs[0] != nil && kvs[0].Lease == int64(lease.ID) {
			fence, err = kvs[0].CreateRevision, nil
		}
	}
	if fence == 0 {
		s.revoke(lease.ID)
		return nil, s.wrap(ctx, "lead", err)
	}
	l := &Leadership{store: s, name: who.Name, fence: fence, base: base, lease: lease.ID}
	l.ctx, l.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := l.keep(); err != nil {
		s.revoke(lease.ID)
		return nil, s.wrap(ctx, "lead", err)
	}
	return l, nil
}

// revoke tries to release a lease; otherwise it expires.
func (s *Store) revoke(lease clientv3.LeaseID) {
	ctx, cancel := s.request(context.Background())
	defer cancel()
	_, _ = s.client.Revoke(ctx, lease)
}

// depose removes a leadership, with its lease, if it is still the one that was read.
func (s *Store) depose(ctx context.Context, leader *mvccpb.KeyValue) error {
	bounded, cancel := s.request(ctx)
	defer cancel()
	_, err := s.client.Txn(bounded).
		If(unchanged(leader)).
		Then(clientv3.OpDelete(string(leader.Key))).
		Commit()
	if err != nil {
		return s.wrap(ctx, "lead", err)
	}
	if leader.Lease != 0 {
		if _, err := s.client.Revoke(bounded, clientv3.LeaseID(leader.Lease)); err != nil &&
			!errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return s.wrap(ctx, "lead", err)
		}
	}
	return nil
}

// awaitChange returns when the leader's key changed after revision, when ctx ends, or when the watch broke. The caller
// then reads the key to learn the state.
func (s *Store) awaitChange(ctx context.Context, revision int64) {
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	select {
	case <-s.client.Watch(watching, s.leaderKey(), clientv3.WithRev(revision+1)):
	case <-ctx.Done():
	}
}

// keep keeps the lease alive and watches for the deletion of the key.
func (l *Leadership) keep() error {
	alive, err := l.store.client.KeepAlive(l.ctx, l.lease)
	if err != nil {
		return err
	}
	l.keeper.Go(func() {
		for range alive {
		}
		l.end(fmt.Errorf("%w: the lease was not renewed in time, or was revoked", ErrNotLeader))
	})
	l.keeper.Go(func() {
		if err := l.watch(); err != nil {
			l.end(err)
		}
	})
	return nil
}

// watch returns when the leader's key is no longer l's.
func (l *Leadership) watch() error {
	from := l.fence
	for l.ctx.Err() == nil {
		l.store.awaitChange(l.ctx, from)
		kvs, revision, err := l.store.read(l.ctx, "lead", l.store.leaderKey())
		switch {
		case errors.Is(err, ErrUnavailable):
			continue // the lease decides how long this may last
		case err != nil:
			return fmt.Errorf("%w: %w", ErrNotLeader, err)
		case kvs[0] == nil || kvs[0].CreateRevision != l.fence:
			return fmt.Errorf("%w: another process took over from %q", ErrNotLeader, l.name)
		}
		from = revision
	}
	return nil
}

// Context ends when leadership ends; context.Cause then matches ErrNotLeader. It may end later than another process
// begins to lead: the fence, not this context, keeps two leaders apart.
func (l *Leadership) Context() context.Context { return l.ctx }

// Fence is the create revision of the leader's key. In a restored etcd the backup's highest fence is added. A later
// leader has a higher fence.
func (l *Leadership) Fence() int64 { return l.base + l.fence }

// Resign ends leadership and lets the next one begin at once. Resigning twice,
// or after leadership ended, does nothing.
func (l *Leadership) Resign(ctx context.Context) error {
	l.end(fmt.Errorf("%w: resigned", ErrNotLeader))
	l.keeper.Wait()
	bounded, cancel := l.store.request(ctx)
	defer cancel()
	_, err := l.store.client.Revoke(bounded, l.lease)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return l.store.wrap(ctx, "resign", err)
}

func (l *Leadership) over(op string) error {
	return fmt.Errorf("%s: %w: the leadership of %q with fence %d has ended; nothing was written",
		op, ErrNotLeader, l.name, l.Fence())
}
