package round

import "sync"

// cache holds the sums that selections are made by.
type cache struct {
	mu   sync.Mutex
	sums *Sums
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

func (c *cache) put(s *Sums) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums = s
}

func (c *cache) drop() { c.put(nil) }

// keep caches the sums of an execution that asked for some to select by.
func (e *Execution) keep() {
	if q, ok := e.question.(Cacher); ok {
		sums, bound := q.Sums(e.counts)
		e.cache.put(&Sums{
			Round: e.key.Number, Bound: bound, Sums: sums, teachers: e.took(), contributors: e.contributors(),
		})
	}
}
