package aggregator

import (
	"runtime/debug"
	"time"
)

const (
	// calmEvery is how often the joins are looked at: a burst is over when there was none
	// in that time.
	calmEvery = 750 * time.Millisecond
	// burst is how many joins are worth a collection, which takes about as long as two of
	// them.
	burst = 64
)

// calm knows when a burst of joins is over. Each handshake leaves garbage and grown stacks of
// the size of what stays; with nothing to do after it, nothing would collect them for minutes.
type calm struct{ last, collected uint64 }

// due says whether to collect, by the number of joins until now.
func (c *calm) due(joins uint64) bool {
	over := joins == c.last
	c.last = joins
	if !over || joins-c.collected < burst {
		return false
	}
	c.collected = joins
	return true
}

// watchJoins gives the system back what bursts of joins leave, until the server is closed.
func (s *Server) watchJoins() {
	tick := time.NewTicker(calmEvery)
	defer tick.Stop()
	var c calm
	for {
		select {
		case <-tick.C:
		case <-s.closing:
			return
		}
		if c.due(s.joins.Load()) {
			debug.FreeOSMemory()
		}
	}
}
