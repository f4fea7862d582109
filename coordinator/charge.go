package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Charge is a release and what it costs.
type Charge struct {
	Question
	// Entries is the length of the vector that is released, 0 for none.
	Entries int
	// Release is stored and handed out: at most MaxRelease bytes, and at most the size given to CheckRoom. The ledger
	// entry holds its SHA-256.
	Release []byte
	// Forget drops the stored releases of the run's rounds below it, in the same transaction. It is at most Round.
	// Their ledger entries stay, and these rounds are never charged or handed out again: see ErrForgotten.
	Forget uint64
}

// Charge pays for a release and stores it, in one transaction, and returns it with its ledger entry. Hand out only the
// release that Charge returned.
//
// If the round was charged before, by any store, Charge returns the stored release and entry, charges nothing, and
// drops the release that it was given. Events that do not fit the budget of the run or of the dataset, or the run's
// plan, give an error that matches [privacy.ErrOverBudget]. Other errors match ErrNoRun, ErrRunClosed, ErrForgotten,
// ErrNotLeader, ErrTooLarge (nothing was written) or ErrUnavailable (ask again to learn the outcome).
func (s *Store) Charge(ctx context.Context, lead *Leadership, c Charge) ([]byte, ledger.Entry, error) {
	const op = "charge"
	if len(c.Release) == 0 {
		return nil, ledger.Entry{}, fmt.Errorf("%s round %d of run %q: the release is empty", op, c.Round, c.Run)
	}
	if len(c.Release) > MaxRelease {
		// CheckRoom finds this before noise is drawn. The size of a release depends on its noise and on private values,
		// so the error does not state it.
		return nil, ledger.Entry{}, fmt.Errorf("%s round %d of run %q: %w; ask fewer queries in a round",
			op, c.Round, c.Run, ErrTooLarge)
	}
	if c.Forget > c.Round {
		return nil, ledger.Entry{}, fmt.Errorf("%s round %d of run %q: it cannot drop rounds below %d; drop only "+
			"rounds before itself", op, c.Round, c.Run, c.Forget)
	}
	sum := sha256.Sum256(c.Release)
	var release []byte
	var entry ledger.Entry
	err := s.amend(ctx, op, lead, c.Run, c.Round, func(l *loaded, stored *mvccpb.KeyValue) (*amendment, error) {
		if stored != nil {
			var err error
			release, entry, err = s.stored(ctx, stored)
			return nil, err
		}
		if c.Round < l.run.Forgotten {
			return nil, &ForgottenError{Run: c.Run, Round: c.Round}
		}
		if l.run.Closed {
			return nil, fmt.Errorf("%s round %d: %w: %q", op, c.Round, ErrRunClosed, c.Run)
		}
		entries, err := s.abandoning(lead, l, c.Round, c.Digest)
		if err != nil {
			return nil, fmt.Errorf("%s round %d: %w", op, c.Round, err)
		}
		next, err := s.charging(lead, l, ledger.EntryRelease, c.Round, c.Use)
		if err != nil {
			return nil, fmt.Errorf("%s round %d: %w", op, c.Round, err)
		}
		next.Entries, next.ReleaseSHA256 = int64(c.Entries), hex.EncodeToString(sum[:])
		puts, err := s.appendEntries(&l.dataset, append(entries, next)...)
		if err != nil {
			return nil, fmt.Errorf("%s round %d of run %q: %w", op, c.Round, c.Run, err)
		}
		release, entry = c.Release, l.dataset.Head
		l.run.Releases++
		// Only rounds that are not dropped yet: etcd looks at every key that a range ever had.
		if c.Forget > l.run.Forgotten {
			puts = append(puts, clientv3.OpDelete(s.releaseKey(c.Run, l.run.Forgotten),
				clientv3.WithRange(s.releaseKey(c.Run, c.Forget))))
			l.run.Forgotten = c.Forget
		}
		key := s.releaseKey(c.Run, c.Round)
		record := releaseRecord{Dataset: l.run.Dataset, Seq: entry.Seq}
		conditions, err := s.storeRelease(ctx, op, lead, key, c.Release, &record)
		if err != nil {
			return nil, err
		}
		if conditions == nil {
			return nil, errOvertaken
		}
		value, err := encode(record)
		if err != nil {
			return nil, err
		}
		return &amendment{append(conditions, absent(key)), append(puts, clientv3.OpPut(key, value))}, nil
	})
	if err != nil {
		return nil, ledger.Entry{}, err
	}
	return release, entry, nil
}

// charging returns the entry that charges a use, released or abandoned, and adds the use to the totals of l's run and
// dataset. It checks both budgets.
func (s *Store) charging(lead *Leadership, l *loaded, kind string, round uint64, use privacy.Use) (
	entry ledger.Entry, err error) {
	entry = s.newEntry(lead, kind, l.run.Dataset)
	if entry.Events, entry.EpsilonSpent, err = l.admit(use); err != nil {
		return entry, err
	}
	entry.Run, entry.Round = l.run.Name, &round
	entry.Planned, entry.Kind = &use.Planned, l.run.Plan[use.Planned].Kind
	entry.Queries, entry.Answered = use.Queries, use.Answered
	return entry, nil
}

// admit checks both budgets and adds the events of a use to both totals. It returns the events and the run's epsilon so
// far.
func (l *loaded) admit(use privacy.Use) ([]privacy.Event, float64, error) {
	ofRun, ofDataset := l.spending()
	ofRun, events, err := ofRun.Use(use)
	if err != nil {
		return nil, 0, fmt.Errorf("budget of run %q: %w", l.run.Name, err)
	}
	if _, err := ofDataset.Admit(events); err != nil {
		return nil, 0, fmt.Errorf("budget of dataset %q: %w", l.dataset.Name, err)
	}
	l.run.Used, l.run.Spent = ofRun.Used, ofRun.Spent
	l.dataset.Spent = privacy.Merge(slices.Concat(l.dataset.Spent, events))
	l.run.EpsilonSpent, err = ofRun.EpsilonSpent()
	return events, l.run.EpsilonSpent, err
}
