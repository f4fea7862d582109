package coordinator

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	// lookEvery is the pause between checks of an address that answers, and lookAgain the pause while it does not.
	lookEvery = 200 * time.Millisecond
	lookAgain = 50 * time.Millisecond
	// refusals is how many refusals in a row show that nothing listens, rather than one process that makes room for
	// the next.
	refusals = 3
)

// meeting remembers that a standby has reached a leader, also if the watch breaks in between.
type meeting struct {
	fence int64 // the leader's
	met   bool
}

// awaitGone returns true when the leader's process is seen to have ended. It returns false when the leader's key
// changed after revision, when ctx ended, or when the watch broke. seen is of this leader.
//
// This decides only when a standby begins to lead. The fence of every write keeps two leaders from writing, also if a
// living leader is taken for dead.
func (s *Store) awaitGone(ctx context.Context, leader leaderRecord, revision int64, seen *meeting) bool {
	if leader.Address == "" {
		s.awaitChange(ctx, revision)
		return false
	}
	log := s.config.Log.With(zap.String("leader", leader.Name), zap.String("address", leader.Address))
	watching, stop := context.WithCancel(ctx)
	var look sync.WaitGroup
	var gone bool
	look.Go(func() {
		gone = awaitEnd(watching, leader.Address, seen, log)
		stop()
	})
	s.awaitChange(watching, revision)
	stop()
	look.Wait()
	if gone {
		log.Info("nothing listens where the leader did; its lease is not waited for")
	}
	return gone
}

// awaitEnd connects to a leader's address repeatedly. It returns true when the address answered before and nothing
// listens there now, which a machine reports at once for a dead process. If the address never answered, the machine
// died or the network is down, it cannot tell, and the lease decides. It returns false when ctx ends.
//
// It closes connections at once, because servers wait for idle connections before they end.
func awaitEnd(ctx context.Context, address string, seen *meeting, log *zap.Logger) bool {
	var dialer net.Dialer
	refused := 0
	for ctx.Err() == nil {
		pause := lookAgain
		conn, err := dialer.DialContext(ctx, "tcp", address)
		switch {
		case err == nil:
			conn.Close()
			if !seen.met {
				log.Info("the leader answers; once nothing listens there, its lease is not waited for")
			}
			seen.met, refused, pause = true, 0, lookEvery
		case errors.Is(err, syscall.ECONNREFUSED):
			if refused++; seen.met && refused >= refusals {
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
