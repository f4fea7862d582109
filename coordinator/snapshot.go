package coordinator

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

const (
	// maxRequest is the request size in bytes that every etcd accepts by default.
	maxRequest = 3 << 19
	// chargeFrame is room, in bytes, in a charge for the ledger entry, the keys, and growth of the totals.
	chargeFrame = 64 << 10
)

// Snapshot is a run with its dataset at one moment.
type Snapshot struct{ loaded loaded }

// Snapshot returns a run with its dataset; the error matches ErrNoRun if there is none. While lead leads, nobody else
// writes these records, so the state after the last charge is not read again. With lead nil it is always read.
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

// Spending returns what the run and its dataset may spend and have spent when a question is asked in a round. Ask and
// Charge allow what both of them allow. Pending questions count as spent, except the same question.
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

// CheckRoom checks that a release of the given bytes can be charged to the run; otherwise the error matches
// ErrTooLarge. Call it before the noise is drawn, with the largest possible size: a charge that failed for its size
// would reveal something about the release without paying for it.
func (n *Snapshot) CheckRoom(release int) error {
	l := n.loaded
	record, err := encode(l.run)
	if err != nil {
		return err
	}
	// Both records are written, and the release's record has its inline bytes. base64 makes them one third longer.
	totals := len(l.datasetKV.Value) + len(record)
	if release > MaxRelease ||
		base64.StdEncoding.EncodedLen(min(release, maxInline))+totals+chargeFrame > maxRequest {
		return fmt.Errorf("make room for a release: %w: a release of run %q may take %d bytes and the totals of "+
			"dataset %q take %d, together more than %d; ask fewer queries in a round",
			ErrTooLarge, l.run.Name, release, l.run.Dataset, totals, maxRequest)
	}
	return nil
}

// Round is a run with one of its rounds.
type Round struct {
	Run Run
	// Release is the round's stored release, with the ledger entry that paid for it. Found is false if the round was
	// not charged, or was dropped.
	Release []byte
	Entry   ledger.Entry
	Found   bool
}

// Round returns a run with one of its rounds at one moment; the error matches ErrNoRun if there is no such run. As with
// [Store.Snapshot], while lead leads an uncharged round is known without reading.
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
