package coordinator

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

const (
	// maxRequest is what every etcd accepts in a request unless it is told
	// otherwise.
	maxRequest = 3 << 19
	// chargeFrame is room in a charge for the ledger entry, the keys, and what
	// the totals grow by until then.
	chargeFrame = 64 << 10
)

// Snapshot is a run with its dataset as they stood at one moment.
type Snapshot struct{ loaded loaded }

// Snapshot returns a run with its dataset; the error matches ErrNoRun when there is none.
// While lead leads nobody else writes what it is made of, so that what the last charge
// left is not read again. With lead nil it always is.
func (s *Store) Snapshot(ctx context.Context, lead *Leadership, run string) (*Snapshot, error) {
	if l := s.cacheOfRun(run).known(lead, run); l != nil {
		return &Snapshot{*l}, nil
	}
	l, err := s.load(ctx, "read a run and its dataset", run)
	if err != nil {
		return nil, err
	}
	return &Snapshot{*l}, nil
}

// Spending returns what the run and its dataset may spend and what they have, when a question is
// asked in a round. Ask and Charge admit what both of them admit. What nodes were asked counts as
// spent, but for the same question.
func (n *Snapshot) Spending(round uint64, digest string) (ofRun, ofDataset privacy.Spending, err error) {
	l := n.loaded
	if before, open := l.dataset.Asked[l.run.Name]; open && !before.is(round, digest) {
		if _, _, err := l.admit(before.use()); err != nil {
			return ofRun, ofDataset, err
		}
	}
	ofRun, ofDataset = l.spending()
	return ofRun, ofDataset, nil
}

// CheckRoom says whether a release of so many bytes can be charged to the run:
// the error matches ErrTooLarge when it cannot. Ask before the noise of a
// release is drawn, with the most bytes that it can have: a charge that failed
// for its size would tell of the release without paying for it.
func (n *Snapshot) CheckRoom(release int) error {
	l := n.loaded
	record, err := encode(l.run)
	if err != nil {
		return err
	}
	// Both records are written with what is stored of the release in its own. What base64
	// makes of that is one third longer.
	totals := len(l.datasetKV.Value) + len(record)
	if release > MaxRelease ||
		base64.StdEncoding.EncodedLen(min(release, maxInline))+totals+chargeFrame > maxRequest {
		return fmt.Errorf("make room for a release: %w: a release of run %q may take %d bytes and the totals of "+
			"dataset %q take %d, more than %d together; ask fewer queries in a round",
			ErrTooLarge, l.run.Name, release, l.run.Dataset, totals, maxRequest)
	}
	return nil
}

// Round is a run with one of its rounds.
type Round struct {
	Run Run
	// Release is what was stored of the round, with the ledger entry that paid for it;
	// Found is false when it was not charged, or was forgotten.
	Release []byte
	Entry   ledger.Entry
	Found   bool
}

// Round returns a run with one of its rounds, as of one moment; the error matches
// ErrNoRun when there is no such run. That a round was not charged yet is known without
// reading while lead leads, as for [Store.Snapshot].
func (s *Store) Round(ctx context.Context, lead *Leadership, run string, round uint64) (Round, error) {
	if err := checkName("run", run); err != nil {
		return Round{}, err
	}
	if l := s.cacheOfRun(run).uncharged(lead, run, round); l != nil {
		return Round{Run: l.run}, nil
	}
	kvs, _, err := s.read(ctx, "read a run and its round", s.runKey(run), s.releaseKey(run, round))
	if err != nil {
		return Round{}, err
	}
	if kvs[0] == nil {
		return Round{}, fmt.Errorf("%w: %q", ErrNoRun, run)
	}
	var out Round
	if out.Run, err = decode[Run](kvs[0]); err != nil || kvs[1] == nil {
		return out, err
	}
	out.Release, out.Entry, err = s.stored(ctx, kvs[1])
	out.Found = err == nil
	return out, err
}
