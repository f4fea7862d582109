package teachers

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/internal/question"
)

// taught trains the run's teachers on a round and then lets them answer it. It saves both before the answer leaves
// (large teachers only from time to time). The same question asked again gets the same answer without training.
func taught(s *question.Site, r question.Round, a *asked, answer func(*lesson) ([]byte, error)) ([]byte, error) {
	m := question.Memory[memory](s.Public)
	state, err := m.state(s.State, r.Run, a.spec)
	if err != nil {
		return nil, err
	}
	digest := r.Digest()
	switch {
	case state.rounds == 0 || r.Number > state.lastRound:
	case r.Number < state.lastRound:
		return nil, fmt.Errorf("round %d of run %q comes after round %d; choose another name for a new run",
			r.Number, r.Run, state.lastRound)
	case digest == state.lastQuestion:
		return state.lastAnswer, nil
	}
	// From here on the teachers in memory are ahead of those on disk. If they cannot be stored they are dropped,
	// and the next question starts from the disk.
	m.current = nil
	l, err := prepare(s, state.ensemble, a)
	if err != nil {
		return nil, err
	}
	raw, err := answer(l)
	if errors.Is(err, ensemble.ErrEnded) {
		err = s.Wanted()
	}
	if err != nil {
		return nil, err
	}
	if err := r.Paid(); err != nil {
		return nil, err
	}
	state.answered(r.Number, digest, raw)
	if err := state.keep(statePath(s.State, r.Run)); err != nil {
		return nil, fmt.Errorf("%w: %w", question.ErrState, err)
	}
	m.current = state
	return raw, nil
}
