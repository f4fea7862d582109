package peer

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/certs"
)

// Rates allow each caller a burst, and then one action per interval. They remember only callers without a full burst:
// those that were active lately.
type Rates struct {
	burst int
	every time.Duration
	now   func() time.Time

	mu sync.Mutex
	of map[string]*rate.Limiter
}

// NewRates returns rates with a burst that refills by one per interval.
func NewRates(burst int, every time.Duration) *Rates {
	return &Rates{burst: burst, every: every, now: time.Now, of: map[string]*rate.Limiter{}}
}

// Take uses up one action of a name, or returns how long to wait for the next.
func (r *Rates) Take(name string) (wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	l := r.of[name]
	if l == nil {
		r.forget(now)
		l = rate.NewLimiter(rate.Every(r.every), r.burst)
		r.of[name] = l
	}
	taken := l.ReserveN(now, 1)
	if wait = taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
	}
	return wait, wait == 0
}

// Check returns nil, or refuses a peer that did something too often. did says what, for the message.
func (r *Rates) Check(id certs.Identity, did string) error {
	wait, ok := r.Take(id.String())
	if ok {
		return nil
	}
	return fault.Laterf(wait, "%s %q %s in a short time; try again in %v", id.Role, id.Name, did,
		wait.Round(time.Millisecond))
}

// forget drops names with a full burst, which equal new ones. Callers hold r.mu.
func (r *Rates) forget(now time.Time) {
	for name, l := range r.of {
		if l.TokensAt(now) >= float64(r.burst) {
			delete(r.of, name)
		}
	}
}
