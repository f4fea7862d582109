package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Charge is a release and what it costs.
type Charge struct {
	Run   string
	Round uint64
	// Use is what the release uses of the run's plan, which prices it.
	Use privacy.Use
	// Entries is the length of the vector that is released, 0 for none.
	Entries int
	// Release is what is stored and handed out: at most MaxRelease bytes, and
	// at most what CheckRoom was asked for. The ledger entry holds its SHA-256.
	Release []byte
	// Forget drops the stored releases of the run's rounds below it, in the same
	// transaction; at most Round. Their entries stay, and they are never charged or
	// handed out again: see ErrForgotten.
	Forget uint64
}

// Charge pays for a release and stores it, in one transaction, and returns it
// with its ledger entry. Only what Charge returned may be handed out.
//
// If the round was charged before, by whomever, the stored release and entry
// are returned and nothing is charged: the release given is forgotten. Events
// that do not fit the budget of the run or of the dataset, or that are not within
// the run's plan, are refused with an error that matches [privacy.ErrOverBudget].
// Other errors match ErrNoRun, ErrRunClosed, ErrForgotten,
// ErrNotLeader, ErrTooLarge (nothing was written) or ErrUnavailable (ask again
// to learn what became of it).
func (s *Store) Charge(ctx context.Context, lead *Leadership, c Charge) ([]byte, ledger.Entry, error) {
	const op = "charge"
	if len(c.Release) == 0 {
		return nil, ledger.Entry{}, fmt.Errorf("%s round %d of run %q: the release is empty", op, c.Round, c.Run)
	}
	if len(c.Release) > MaxRelease {
		// CheckRoom finds this before noise is drawn. The size of a release
		// depends on its noise and what is under it, so it is not told.
		return nil, ledger.Entry{}, fmt.Errorf("%s round %d of run %q: %w; ask fewer queries in a round",
			op, c.Round, c.Run, ErrTooLarge)
	}
	if c.Forget > c.Round {
		return nil, ledger.Entry{}, fmt.Errorf("%s round %d of run %q: it would forget the rounds below %d; forget "+
			"what comes before the round, at most", op, c.Round, c.Run, c.Forget)
	}
	sum := sha256.Sum256(c.Release)
	var release []byte
	var entry ledger.Entry
	dataset, err := s.datasetOf(ctx, op, c.Run)
	if err != nil {
		return nil, ledger.Entry{}, err
	}
	head := s.cacheOf(dataset)
	if err := head.lock(ctx); err != nil {
		return nil, ledger.Entry{}, s.wrap(ctx, op, err)
	}
	defer head.unlock()
	err = update(func() (bool, error) {
		key := s.releaseKey(c.Run, c.Round)
		others := head.others.Load()
		l := head.uncharged(lead, c.Run, c.Round)
		if l == nil {
			var err error
			if l, err = s.load(ctx, op, c.Run, key); err != nil {
				return false, err
			}
			if stored := l.more[0]; stored != nil {
				release, entry, err = s.stored(ctx, stored)
				return err == nil, err
			}
		}
		if c.Round < l.run.Forgotten {
			return false, &ForgottenError{Run: c.Run, Round: c.Round}
		}
		if l.run.Closed {
			return false, fmt.Errorf("%s round %d: %w: %q", op, c.Round, ErrRunClosed, c.Run)
		}
		events, epsilonSpent, err := l.admit(c.Use)
		if err != nil {
			return false, fmt.Errorf("%s round %d: %w", op, c.Round, err)
		}
		next := s.newEntry(lead, ledger.EntryRelease, l.run.Dataset)
		next.Run, next.Round = c.Run, &c.Round
		next.Planned, next.Kind = &c.Use.Planned, l.run.Plan[c.Use.Planned].Kind
		next.Events, next.Queries, next.Answered = events, c.Use.Queries, c.Use.Answered
		next.Entries = int64(c.Entries)
		next.EpsilonSpent, next.ReleaseSHA256 = epsilonSpent, hex.EncodeToString(sum[:])
		puts, err := s.appendEntry(&l.dataset, next)
		if err != nil {
			return false, fmt.Errorf("%s round %d of run %q: %w", op, c.Round, c.Run, err)
		}
		release, entry = c.Release, l.dataset.Head
		l.run.Releases++
		l.run.EpsilonSpent = epsilonSpent
		// Only what is not forgotten yet: etcd looks at every key it ever had in a range.
		if c.Forget > l.run.Forgotten {
			puts = append(puts, clientv3.OpDelete(s.releaseKey(c.Run, l.run.Forgotten),
				clientv3.WithRange(s.releaseKey(c.Run, c.Forget))))
			l.run.Forgotten = c.Forget
		}
		record := releaseRecord{Dataset: l.run.Dataset, Seq: entry.Seq}
		conditions, err := s.storeRelease(ctx, op, lead, key, c.Release, &record)
		if conditions == nil || err != nil {
			return false, err
		}
		value, err := encode(record)
		if err != nil {
			return false, err
		}
		puts = append(puts, clientv3.OpPut(key, value))
		revision, err := s.commitRun(ctx, op, lead, l, append(conditions, absent(key)), puts...)
		if revision == 0 {
			head.forget()
			return false, err
		}
		head.learn(lead, l, others, revision, puts)
		return true, nil
	})
	if err != nil {
		return nil, ledger.Entry{}, err
	}
	return release, entry, nil
}

// admit asks both budgets and adds the events of a use to both totals. It returns the
// events and the run's running figure.
func (l *loaded) admit(use privacy.Use) ([]privacy.Event, float64, error) {
	ofRun, ofDataset := l.spending()
	ofRun, events, err := ofRun.Use(use)
	if err != nil {
		return nil, 0, fmt.Errorf("budget of run %q: %w", l.run.Name, err)
	}
	if ofDataset, err = ofDataset.Admit(events); err != nil {
		return nil, 0, fmt.Errorf("budget of dataset %q: %w", l.dataset.Name, err)
	}
	l.run.Used, l.run.Spent, l.dataset.Spent = ofRun.Used, ofRun.Spent, ofDataset.Spent
	epsilon, err := ofRun.EpsilonSpent()
	return events, epsilon, err
}
