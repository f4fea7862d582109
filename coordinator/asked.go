package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// Question is what a round asks.
type Question struct {
	Run   string
	Round uint64
	// Digest is the hex SHA-256 of the question's bytes.
	Digest string
	// Use is the part of the run's plan that the question uses, which prices it. Until its release exists this is the
	// most that it can use.
	Use privacy.Use
	// Roster are the sites that are asked, as in the ledger entry, if this is the run's first question.
	Roster []ledger.Site
}

// asked is a question that nodes were asked and that is not charged yet. A caller that asked it may learn, from its
// duration or from how it fails, something that no release paid for. So its worst case counts as spent from then on.
// Its release replaces that charge. If another question takes its place, or the run ends, it is charged as abandoned.
// Repeating the same bytes costs nothing: nodes give the same answer again.
type asked struct {
	Round   uint64          `json:"round"`
	Digest  string          `json:"digest"`
	Planned int             `json:"planned"`
	Queries int64           `json:"queries"`
	Events  []privacy.Event `json:"events"`
}

// due is the spending of a dataset, with the worst case of other runs' uncharged questions.
func (d datasetRecord) due(run string) []privacy.Event {
	spent := d.Spent
	for _, name := range slices.Sorted(maps.Keys(d.Asked)) {
		if name != run {
			spent = append(slices.Clip(spent), d.Asked[name].Events...)
		}
	}
	return spent
}

// Ask records that nodes are asked a question, before anything that follows from it leaves the aggregator. A round that
// was charged needs no record. The error matches [privacy.ErrOverBudget] if the worst case does not fit the budget of
// the run or of the dataset; others are those of [Store.Charge].
func (s *Store) Ask(ctx context.Context, lead *Leadership, q Question) error {
	const op = "record a question"
	return s.amend(ctx, op, lead, q.Run, q.Round, func(l *loaded, stored *mvccpb.KeyValue) (*amendment, error) {
		if before, open := l.dataset.Asked[q.Run]; stored != nil || open && before.is(q.Round, q.Digest) {
			return nil, nil
		}
		if l.run.Closed {
			return nil, fmt.Errorf("%s: %w: %q", op, ErrRunClosed, q.Run)
		}
		entries, err := s.abandoning(lead, l, q.Round, q.Digest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		after := *l
		events, _, err := after.admit(q.Use)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		l.dataset.Asked = maps.Clone(l.dataset.Asked) // records of the cache are never changed
		if l.dataset.Asked == nil {
			l.dataset.Asked = map[string]asked{}
		}
		l.dataset.Asked[q.Run] = asked{q.Round, q.Digest, q.Use.Planned, q.Use.Queries, events}
		if !l.run.Rostered && len(q.Roster) > 0 {
			entry := s.newEntry(lead, ledger.EntryRoster, l.run.Dataset)
			entry.Run, entry.Roster, l.run.Rostered = q.Run, q.Roster, true
			entries = append(entries, entry)
		}
		puts, err := s.appendEntries(&l.dataset, entries...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		// The cache knows of charged rounds only how many there are.
		return &amendment{[]clientv3.Cmp{absent(s.releaseKey(q.Run, q.Round))}, puts}, nil
	})
}

// use is the worst case of the question.
func (a asked) use() privacy.Use {
	return privacy.Use{Planned: a.Planned, Queries: a.Queries, Answered: a.Queries}
}

func (a asked) is(round uint64, digest string) bool { return a.Round == round && a.Digest == digest }

// abandoning removes the pending question of l's run from the dataset. If that is not the question with the digest, it
// charges the question at its worst case and returns the entry to append.
func (s *Store) abandoning(lead *Leadership, l *loaded, round uint64, digest string) ([]ledger.Entry, error) {
	before, open := l.dataset.Asked[l.run.Name]
	if !open {
		return nil, nil
	}
	l.dataset.Asked = maps.Clone(l.dataset.Asked)
	delete(l.dataset.Asked, l.run.Name)
	if before.is(round, digest) {
		return nil, nil
	}
	l.run.Abandoned++
	entry, err := s.charging(lead, l, ledger.EntryAbandoned, before.Round, before.use())
	return []ledger.Entry{entry}, err
}

// amendment is written to a run, its dataset and the ledger in one transaction.
type amendment struct {
	conditions []clientv3.Cmp
	puts       []clientv3.Op
}

// errOvertaken means that an amendment must be decided again.
var errOvertaken = errors.New("the state changed in the meantime")

// amend commits the amendment that step returns for a run and its dataset, at the end of the dataset's ledger; if it is
// nil, nothing is written. stored is the release of a round, nil if there is none. Step is repeated if another writer
// was first.
func (s *Store) amend(ctx context.Context, op string, lead *Leadership, run string, round uint64,
	step func(l *loaded, stored *mvccpb.KeyValue) (*amendment, error)) error {
	dataset, err := s.datasetOf(ctx, op, run)
	if err != nil {
		return err
	}
	head := s.cacheOf(dataset)
	if err := head.lock(ctx); err != nil {
		return s.wrap(ctx, op, err)
	}
	defer head.unlock()
	return update(func() (bool, error) {
		others := head.others.Load()
		var stored *mvccpb.KeyValue
		l := head.uncharged(lead, run, round)
		if l == nil {
			var err error
			if l, err = s.load(ctx, op, run, s.releaseKey(run, round)); err != nil {
				return false, err
			}
			stored = l.more[0]
		}
		a, err := step(l, stored)
		if errors.Is(err, errOvertaken) {
			return false, nil
		}
		if a == nil || err != nil {
			return err == nil, err
		}
		revision, err := s.commitRun(ctx, op, lead, l, a.conditions, a.puts...)
		if revision == 0 {
			head.forget()
			return false, err
		}
		head.learn(lead, l, others, revision, a.puts)
		return true, nil
	})
}
