package hostile

import (
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/dial"
)

// Pings as often as nodes and students send them, and twice as often, are in order; a
// little more often than that are not.
func TestPingsThatBothSidesAgreeOn(t *testing.T) {
	t.Parallel() // with who says nothing: both wait
	if testing.Short() {
		t.Skip("takes 16 seconds")
	}
	w := attacked(t)
	var pinging sync.WaitGroup
	for _, c := range []struct {
		every time.Duration
		stays bool
	}{{dial.PingEvery, true}, {dial.PingEvery/2 + 200*time.Millisecond, true},
		{dial.PingEvery/2 - 500*time.Millisecond, false}} {
		conn := w.h2(t, certs.RoleNode, "mallory")
		pinging.Go(func() {
			const long = 16 * time.Second // enough for two that came too early
			began := time.Now()
			for left := long; left > 0 && !conn.closed(); left = long - time.Since(began) {
				conn.write(rawFrame(framePing, 0, 0, make([]byte, 8)))
				time.Sleep(min(c.every, left))
			}
			sent := len(conn.got(frameGoAway)) > 0 || conn.closed()
			if sent == c.stays {
				t.Errorf("pings every %v: sent away: %v", c.every, sent)
			}
			if sent {
				wantCalm(t, conn)
			}
		})
	}
	pinging.Wait()
}
