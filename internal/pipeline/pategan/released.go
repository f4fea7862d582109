package pategan

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
)

// Released returns the rounds of votes that the student keeps, the newest last.
func (t *Trainer) Released() []pipeline.ReleasedVotes {
	list := make([]pipeline.ReleasedVotes, len(t.rounds))
	for i, r := range t.rounds {
		list[i] = pipeline.ReleasedVotes{Round: uint64(1 + t.Done - len(t.rounds) + i), Noise: r.noise}
		for q, known := range r.known {
			if known > 0 {
				list[i].Shares = append(list[i].Shares, r.share[q])
			}
		}
	}
	return list
}
