package round

import (
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
)

// cache holds the sums that selections are made by, and the room of the run's student that they take.
type cache struct {
	mu      sync.Mutex
	sums    *Sums
	student string
	room    int
}

// get returns the sums of a round, as far as they are cached. Sums with a node in them whose
// certificate was revoked are not: they are collected again, without it.
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

// put replaces the sums, and gives the room of those before back.
func (c *cache) put(all *peer.Room, s *Sums, student string, room int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all.Give(c.student, c.room)
	c.sums, c.student, c.room = s, student, room
}

// keep caches the sums of an execution that asked for some to select by, with their room.
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
