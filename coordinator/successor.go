package coordinator

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// lookEvery is the pause between looks at an address that answers, and
	// lookAgain at one that does not.
	lookEvery = 200 * time.Millisecond
	lookAgain = 50 * time.Millisecond
	// refusals in a row say that nothing listens, and that it is not one process that
	// makes room for the next.
	refusals = 3
)

// awaitGone returns true when the process of the leader at the address is seen to have
// ended, and false when the leader's key changed behind revision, when ctx ended, or when
// the watch broke.
//
// What is seen decides only when a standby begins to lead. That two never both write is
// kept by the fence of every write, and holds also where a living leader is taken for dead.
func (s *Store) awaitGone(ctx context.Context, address string, revision int64) bool {
	if address == "" {
		s.awaitChange(ctx, revision)
		return false
	}
	watching, stop := context.WithCancel(ctx)
	var look sync.WaitGroup
	var gone bool
	look.Go(func() {
		gone = awaitEnd(watching, address)
		stop()
	})
	s.awaitChange(watching, revision)
	stop()
	look.Wait()
	return gone
}

// awaitEnd connects to an address again and again, and returns true when it answered and
// nothing listens there now, which a machine says at once of a process that died. Of an
// address that never answered, of a machine that died, and of a network that is down it
// says nothing: the lease ends then. It returns false when ctx ends.
//
// Connections are closed at once. Servers wait for those that say nothing before they end.
func awaitEnd(ctx context.Context, address string) bool {
	var dialer net.Dialer
	met, refused := false, 0
	for ctx.Err() == nil {
		pause := lookAgain
		conn, err := dialer.DialContext(ctx, "tcp", address)
		switch {
		case err == nil:
			conn.Close()
			met, refused, pause = true, 0, lookEvery
		case errors.Is(err, syscall.ECONNREFUSED):
			if refused++; met && refused >= refusals {
				return ctx.Err() == nil
			}
		default:
			refused = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return false
}
