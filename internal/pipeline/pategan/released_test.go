package pategan

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Of the rounds that are kept, numbers and answered shares; an unanswered query
// has none.
func TestReleasedGivesAnsweredShares(t *testing.T) {
	trainer := &Trainer{NetworkStudent: &pipeline.NetworkStudent{Done: 7}, rounds: []*labelled{
		{share: []float32{0.25, 0.5, 1.25}, known: []float32{1, 0, 1}, noise: 0.1},
		{share: []float32{0}, known: []float32{0}, noise: 0.2},
	}}
	want := []pipeline.ReleasedVotes{{Round: 6, Shares: []float32{0.25, 1.25}, Noise: 0.1}, {Round: 7, Noise: 0.2}}
	testkit.Same(t, "", want, trainer.Released())
}
