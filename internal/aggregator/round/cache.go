package round

import (
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
)

// cache has the sums for selections, and counts their memory as room of the run's student.
type cache struct {
	mu      sync.Mutex
	sums    *Sums
	student string
	room    int
}

// get returns the cached sums of a round. It omits sums with a contributor whose certificate was revoked: those are
// collected again without it.
func (c *cache) get(round uint64) (Sums, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums == nil || c.sums.Round != round {
		return Sums{}, false
	}
	if revokedAmong(c.sums.contributors) != nil {
		c.sums = nil
		return Sums{}, false
	}
	return *c.sums, true
}

// put replaces the sums and releases the room of the earlier ones.
func (c *cache) put(all *peer.Room, s *Sums, student string, room int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all.Give(c.student, c.room)
	c.sums, c.student, c.room = s, student, room
}

// keep caches the sums of an execution for selections, with their room.
func (rs *Rounds) keep(e *Execution) {
	if q, ok := e.question.(Cacher); ok {
		sums, bound := q.Sums(e.counts)
		room := min(8*len(sums), e.room)
		e.cache.put(rs.Room, &Sums{
			Round: e.key.Number, Planned: e.planned, Bound: bound, Sums: sums,
			teachers: e.took(), contributors: e.contributors(),
		}, e.student, room)
		e.room -= room
	}
}
