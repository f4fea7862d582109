package coordinator

import "context"

const (
	// maxRequest is what every etcd accepts in a request unless it is told
	// otherwise.
	maxRequest = 3 << 19
	// chargeFrame is room in a charge for the ledger entry, the keys, and what
	// the totals grow by until then.
	chargeFrame = 64 << 10
)

// CheckRoom is [Snapshot.CheckRoom] of the run as it is now.
func (s *Store) CheckRoom(ctx context.Context, run string, release int) error {
	n, err := s.Snapshot(ctx, run)
	if err != nil {
		return err
	}
	return n.CheckRoom(release)
}
