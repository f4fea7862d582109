package pgb

import (
	"context"
	"fmt"
)

// Plays are the result of a game.
type Plays struct {
	// Weights are the mean of the weights over the rounds, one for each candidate, adding
	// up to 1.
	Weights []float64
	// Mixture is the share of the rounds in which each discriminator was selected: the weights of the uniform
	// mixture of the selected ones.
	Mixture []float64
	// Selected are the selected discriminators, round by round.
	Selected []int
}

// Mixed returns the mixture's score for each record, from the scores of the discriminators: scores[j][b] is the
// score of record b by discriminator j. The records may be the candidates or any others. It returns nil if the
// number of discriminators differs, or if not all of them score the same number of records.
func (p *Plays) Mixed(scores [][]float64) []float64 {
	if len(scores) != len(p.Mixture) || len(scores) == 0 {
		return nil
	}
	mixed := make([]float64, len(scores[0]))
	for j, row := range scores {
		if len(row) != len(mixed) {
			return nil
		}
		for b, v := range row {
			mixed[b] += float64(p.Mixture[j] * v)
		}
	}
	for b, v := range mixed {
		mixed[b] = min(1, v) // rounding may make the shares add up to slightly more than 1
	}
	return mixed
}

// BestResponse always selects the discriminator of the largest U, the first of equal ones, for the
// discriminators' mean scores of real records. With exact scores it is NOT PRIVATE, and for comparison only.
// With scores that were released with noise it is post-processing.
func BestResponse(real []float64) Selector { return bestResponse(real) }

type bestResponse []float64

func (real bestResponse) Select(_ context.Context, _ int, expected []float64) (int, error) {
	if len(expected) != len(real) {
		return 0, fmt.Errorf("%w: %d means of real records for %d discriminators", ErrScores, len(real), len(expected))
	}
	best := 0
	for j, v := range real {
		if !(v >= 0 && v <= 1) {
			return 0, fmt.Errorf("%w: discriminator %d has the mean score %v of real records, want a probability from "+
				"0 to 1", ErrScores, j, v)
		}
		if v-expected[j] > real[best]-expected[best] {
			best = j
		}
	}
	return best, nil
}
