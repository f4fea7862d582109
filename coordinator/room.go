package coordinator

import (
	"context"
	"encoding/base64"
	"fmt"
)

const (
	// maxRequest is what every etcd accepts in a request unless it is told
	// otherwise.
	maxRequest = 3 << 19
	// chargeFrame is room in a charge for the ledger entry, the keys, and what
	// the totals grow by until then.
	chargeFrame = 64 << 10
)

// CheckRoom says whether a release of so many bytes can be charged to a run:
// the error matches ErrTooLarge when it cannot. Ask before the noise of a
// release is drawn, with the most bytes that it can have: a charge that failed
// for its size would tell of the release without paying for it.
func (s *Store) CheckRoom(ctx context.Context, run string, release int) error {
	const op = "make room for a release"
	l, err := s.load(ctx, op, run)
	if err != nil {
		return err
	}
	record, err := encode(l.run)
	if err != nil {
		return err
	}
	// Both records are written with the release. What base64 makes of it is
	// one third longer.
	totals := len(l.datasetKV.Value) + len(record)
	if release > MaxRelease || base64.StdEncoding.EncodedLen(release)+totals+chargeFrame > maxRequest {
		return fmt.Errorf("%s: %w: a release of run %q may take %d bytes and the totals of dataset %q take %d, more than %d together; ask fewer queries in a round",
			op, ErrTooLarge, run, release, l.run.Dataset, totals, maxRequest)
	}
	return nil
}
