package question

import (
	"crypto/rand"
	"crypto/sha3"
	"sync"

	"github.com/conclave-dp/conclave/gnmax"
)

// UnpaidSamples holds a secret seed for each masked run. All attempts of the run draw their Poisson samples from
// it until one attempt is charged.
//
// Why: the time of an answer reveals the size of its sample, and attempts are free. If each attempt had its own
// sample, an aggregator could repeat attempts until a sample has the size that it wants, and open that one. The
// price of a sample assumes that nobody chose it. It is safe for concurrent use.
type UnpaidSamples struct {
	mu    sync.Mutex
	seeds map[string][32]byte // by run; at most as many as run keys
}

// Of returns the current source of a run's samples.
func (s *UnpaidSamples) Of(run string) func() *gnmax.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	seed, kept := s.seeds[run]
	if !kept {
		rand.Read(seed[:]) // never fails
		if s.seeds == nil {
			s.seeds = map[string][32]byte{}
		}
		s.seeds[run] = seed
	}
	return func() *gnmax.Source {
		bits := sha3.NewSHAKE256()
		_, _ = bits.Write(seed[:]) // never fails
		return gnmax.NewSourceFrom(bits)
	}
}

// Drop makes the next attempt of a run draw a new sample, because the previous one was charged.
func (s *UnpaidSamples) Drop(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seeds, run)
}
