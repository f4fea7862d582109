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
	// Digest is the hex SHA-256 of its bytes.
	Digest string
	// Use is what it uses of the run's plan, which prices it: the most that it can use, until its
	// release is there.
	Use privacy.Use
	// Roster are the sites that it is asked, as an entry of the ledger has them if it is the run's first question.
	Roster []ledger.Site
}

// asked is a question that nodes were asked and that is not charged yet. Who asked it may learn
// from how long it takes, or from how it fails, what no release paid for. So its worst case
// counts as spent from then on. Its release replaces that; where another question takes its
// place, or the run ends, it is charged as abandoned. The same bytes asked again cost nothing:
// nodes answer them as before.
type asked struct {
	Round   uint64          `json:"round"`
	Digest  string          `json:"digest"`
	Planned int             `json:"planned"`
	Queries int64           `json:"queries"`
	Events  []privacy.Event `json:"events"`
}

// due is what is spent of a dataset, with the worst case of what was asked for other runs.
func (d datasetRecord) due(run string) []privacy.Event {
	spent := d.Spent
	for _, name := range slices.Sorted(maps.Keys(d.Asked)) {
		if name != run {
			spent = append(slices.Clip(spent), d.Asked[name].Events...)
		}
	}
	return spent
}

// Ask notes that nodes are asked a question, before anything that follows from that is told
// outside. A round that was charged needs no note. The error matches [privacy.ErrOverBudget]
// where the worst case does not fit the budgets of the run or of the dataset; others are those
// of [Store.Charge].
func (s *Store) Ask(ctx context.Context, lead *Leadership, q Question) error {
	const op = "note a question"
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
		return &amendment{puts: puts}, nil
	})
}

// use is the worst case.
func (a asked) use() privacy.Use {
	return privacy.Use{Planned: a.Planned, Queries: a.Queries, Answered: a.Queries}
}

func (a asked) is(round uint64, digest string) bool { return a.Round == round && a.Digest == digest }

// abandoning takes what was asked for l's run out of the dataset. Where that is not the question
// of a round with the digest it charges it at its worst, and returns the entry to append.
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

// amendment is what is written to a run, its dataset and the ledger at once.
type amendment struct {
	conditions []clientv3.Cmp
	puts       []clientv3.Op
}

// errOvertaken has an amendment decided anew.
var errOvertaken = errors.New("what it was decided on has changed")

// amend commits what step makes of a run with its dataset, at the end of the dataset's ledger;
// nothing where that is nil. stored is the release of a round, nil while there is none. Step is
// repeated where somebody else wrote first.
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
