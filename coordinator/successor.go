package coordinator

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// lookEvery is the pause between looks at an address that does not answer.
	lookEvery = 50 * time.Millisecond
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

// awaitEnd holds a connection to an address, and returns true when it broke and nothing
// listens there any more, which a machine says at once of a process that died. Of an
// address that never answered, of a machine that died, and of a network that is down it
// says nothing: the lease ends then. It returns false when ctx ends.
func awaitEnd(ctx context.Context, address string) bool {
	var dialer net.Dialer
	met, refused := false, 0
	for ctx.Err() == nil {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		switch {
		case err == nil:
			met, refused = true, 0
			hold(ctx, conn) // until it dies, or is tired of a connection that says nothing
		case errors.Is(err, syscall.ECONNREFUSED):
			if refused++; met && refused >= refusals {
				return ctx.Err() == nil
			}
		default:
			refused = 0
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
	return false
}

// hold reads a connection until it breaks or ctx ends.
func hold(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, _ = io.Copy(io.Discard, conn)
}
