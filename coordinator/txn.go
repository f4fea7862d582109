package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	readRetryPause = 50 * time.Millisecond
	readRetries    = 5 * time.Second
	// commitAttempts bounds how often a commit without an answer is checked and, if it did not happen, repeated.
	commitAttempts = 3
)

// read returns the keys at one revision; absent keys are nil. It retries for some seconds, so that a short
// outage of etcd goes unnoticed.
func (s *Store) read(ctx context.Context, op string, keys ...string) ([]*mvccpb.KeyValue, int64, error) {
	gets := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		gets[i] = clientv3.OpGet(key)
	}
	bounded, cancel := s.request(ctx)
	defer cancel()
	r, err := backoff.Retry(bounded, func() (*clientv3.TxnResponse, error) {
		r, err := s.client.Txn(bounded).Then(gets...).Commit()
		if err != nil && (!unanswered(err) || bounded.Err() != nil) {
			err = backoff.Permanent(err)
		}
		return r, err
	}, backoff.WithBackOff(backoff.NewConstantBackOff(readRetryPause)),
		backoff.WithMaxElapsedTime(readRetries))
	if err != nil {
		return nil, 0, s.wrap(ctx, op, err)
	}
	kvs := make([]*mvccpb.KeyValue, len(keys))
	for i, response := range r.Responses {
		if found := response.GetResponseRange().GetKvs(); len(found) > 0 {
			kvs[i] = found[0]
		}
	}
	return kvs, r.Header.GetRevision(), nil
}

// list returns the values under a prefix in the order of their keys. It reads in pages, for keys
// that are never changed or removed together.
func (s *Store) list(ctx context.Context, op, prefix string) ([]*mvccpb.KeyValue, error) {
	const page = 1000
	end := clientv3.GetPrefixRangeEnd(prefix)
	var all []*mvccpb.KeyValue
	for from := prefix; ; {
		bounded, cancel := s.request(ctx)
		r, err := s.client.Get(bounded, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		cancel()
		if err != nil {
			return nil, s.wrap(ctx, op, err)
		}
		all = append(all, r.Kvs...)
		if !r.More {
			return all, nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// commit writes ops in one transaction, if lead still leads and the conditions
// hold. It returns false when a condition does not hold, and an error that
// matches ErrNotLeader when lead is over.
func (s *Store) commit(ctx context.Context, op string, lead *Leadership, conditions []clientv3.Cmp,
	ops ...clientv3.Op) (bool, error) {
	revision, err := s.commitAt(ctx, op, lead, conditions, ops...)
	return revision > 0, err
}

// commitAt is commit that returns the revision of the write, 0 if nothing was written.
func (s *Store) commitAt(ctx context.Context, op string, lead *Leadership, conditions []clientv3.Cmp,
	ops ...clientv3.Op) (revision int64, err error) {
	if lead == nil {
		return 0, fmt.Errorf("%s: %w: no leadership", op, ErrNotLeader)
	}
	bounded, cancel := s.request(ctx)
	defer cancel()
	fence := clientv3.Compare(clientv3.CreateRevision(s.leaderKey()), "=", lead.fence)
	r, err := s.client.Txn(bounded).
		If(append([]clientv3.Cmp{fence}, conditions...)...).
		Then(ops...).
		Else(clientv3.OpGet(s.leaderKey())).
		Commit()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return 0, lead.over(op)
	}
	if err != nil {
		err = s.wrap(ctx, op, err)
		if u, ok := err.(*UnavailableError); ok {
			u.commit = true
		}
		return 0, err
	}
	if r.Succeeded {
		return r.Header.GetRevision(), nil
	}
	leader := r.Responses[0].GetResponseRange().GetKvs()
	if len(leader) == 0 || leader[0].CreateRevision != lead.fence {
		return 0, lead.over(op)
	}
	return 0, nil
}

// update repeats a step that reads, decides and commits until it is done. After a conflict, or a commit without an
// answer, the step decides again from a fresh read. A late commit does no harm, because each compares the revisions
// behind its decision.
func update(step func() (done bool, err error)) error {
	for unknown := 0; ; {
		done, err := step()
		if done {
			return nil
		}
		if err == nil {
			continue // another writer committed first
		}
		var u *UnavailableError
		if !errors.As(err, &u) || !u.commit {
			return err
		}
		if unknown++; unknown == commitAttempts {
			return err
		}
	}
}

func unchanged(kv *mvccpb.KeyValue) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)
}

func absent(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
}
