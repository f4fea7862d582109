package dial

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pause is the time between attempts to do what an aggregator that is away
// cannot answer. The zero value begins with a tenth of a second.
type Pause struct{ next time.Duration }

// Next is how long the next wait lasts at most.
func (p *Pause) Next() time.Duration { return max(p.next, firstPause) }

// Reset begins anew, after something worked.
func (p *Pause) Reset() { p.next = 0 }

// Wait waits, and makes the next wait longer, up to most. Half of it is random, so
// that the nodes of a large cluster do not all come back at once.
func (p *Pause) Wait(ctx context.Context, most time.Duration) {
	pause := p.Next()
	timer := time.NewTimer(pause/2 + time.Duration(rand.Int64N(int64(pause/2)+1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	p.next = max(firstPause, min(time.Duration(growth*float64(pause)), most))
}
