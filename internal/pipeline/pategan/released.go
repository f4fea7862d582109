package pategan

// Released is what a round of votes released: noisy shares, and never a vote.
type Released struct {
	Round uint64
	// Shares are those of the answered queries.
	Shares []float32
	// Noise is the standard deviation of the noise of a share.
	Noise float64
}

// Released returns the rounds of votes that the student keeps, the newest last.
func (t *Trainer) Released() []Released {
	list := make([]Released, len(t.rounds))
	for i, r := range t.rounds {
		list[i] = Released{Round: uint64(firstVoteRound + t.done - len(t.rounds) + i), Noise: r.noise}
		for q, known := range r.known {
			if known > 0 {
				list[i].Shares = append(list[i].Shares, r.share[q])
			}
		}
	}
	return list
}
