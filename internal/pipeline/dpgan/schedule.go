package dpgan

// schedule says when steps of the generator are due.
type schedule struct {
	// every is the present n_D; since counts the discriminator's steps since the generator's last step.
	every, since int
	// found is the moving average of the share of generated records that the discriminator detects; rest counts
	// the generator's steps until n_D may grow.
	found float64
	rest  int
}

// The decay of the moving average. After n_D grows, the average needs 2/(1-beta) steps of the generator to
// forget the time before (Bie, Kamath and Zhang 2023, section 4.2).
const (
	beta    = 0.99
	grace   = 200
	maxGrow = 128
)

// saw records the scores of generated records.
func (s *schedule) saw(scores []float32) {
	found := 0
	for _, v := range scores {
		if v < 0 {
			found++
		}
	}
	s.found = beta*s.found + (1-beta)*float64(found)/float64(max(1, len(scores)))
}

// due counts a step of the discriminator and tells whether it is the generator's turn.
func (s *schedule) due() bool {
	s.since++
	if s.since < s.every {
		return false
	}
	s.since = 0
	return true
}

// adapt lets n_D grow after a step of the generator: a discriminator that does not detect generated records has
// nothing to teach.
func (s *schedule) adapt(threshold float64, first int) {
	if s.rest++; threshold == 0 || s.rest < grace || s.found >= threshold || s.every >= maxGrow*first {
		return
	}
	s.every, s.rest = 2*s.every, 0
}
