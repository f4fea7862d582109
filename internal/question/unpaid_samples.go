package question

import (
	"crypto/rand"
	"crypto/sha3"
	"sync"

	"github.com/conclave-dp/conclave/gnmax"
)

// UnpaidSamples has a secret seed of each masked run, from which its attempts draw their Poisson samples until one of
// them is charged. How long an answer takes shows how large its sample is, and attempts are free: with a sample of its
// own for each, an aggregator could go on until one is as large as it likes, and open that one. The price of a sample
// assumes that nobody chose it. It may be used by several goroutines.
type UnpaidSamples struct {
	mu    sync.Mutex
	seeds map[string][32]byte // by run; as many as there are run keys at most
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

// Drop has the next attempt of a run draw a sample of its own: the one before was charged.
func (s *UnpaidSamples) Drop(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seeds, run)
}
