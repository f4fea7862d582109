package pgb

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// ErrScores means that scores are not probabilities, or do not form a table. Scores follow from releases: the
// message may contain them.
var ErrScores = errors.New("unusable scores")

// Game is a set of candidates with the scores that every discriminator gives them.
type Game struct {
	// scores has shape [discriminators, candidates].
	scores     [][]float64
	candidates int
	options    Options // with the rate chosen
	// strata are groups of candidates. The weights in each add up to its share of all candidates.
	strata [][]int
}

// New makes a game. scores[j][b] is the probability that candidate b is real, by discriminator j; the game
// retains the slices. The error matches [ErrScores] if a score is outside [0, 1], and names discriminator and
// candidate.
func New(scores [][]float64, o Options) (*Game, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(scores) == 0 || len(scores[0]) == 0 {
		return nil, fmt.Errorf("pgb: %w: there are none; store generators and discriminators (student.keep) and draw "+
			"candidates", ErrScores)
	}
	g := &Game{scores: scores, candidates: len(scores[0])}
	for j, row := range scores {
		if len(row) != g.candidates {
			return nil, fmt.Errorf("pgb: %w: discriminator %d scores %d candidates, discriminator 0 scores %d",
				ErrScores, j, len(row), g.candidates)
		}
		for b, v := range row {
			if !(v >= 0 && v <= 1) {
				return nil, fmt.Errorf("pgb: %w: discriminator %d gives candidate %d the score %v, want a probability "+
					"from 0 to 1", ErrScores, j, b, v)
			}
		}
	}
	g.options = o.ChosenFor(g.candidates)
	return g, g.Within(make([]int, g.candidates))
}

// Within makes the weights of each class of candidates always add up to the class's share of the candidates.
// The game is then about the records of a class, and not about the size of classes, which is known from
// elsewhere. [Alpha] still holds: the data player has a distribution in each class, its losses are the mean
// over classes, and so is its regret. Call it before Play.
func (g *Game) Within(classes []int) error {
	if len(classes) != g.candidates {
		return fmt.Errorf("pgb: %d classes for %d candidates", len(classes), g.candidates)
	}
	at := map[int]int{}
	g.strata = nil
	for b, c := range classes {
		i, seen := at[c]
		if !seen {
			i = len(g.strata)
			at[c], g.strata = i, append(g.strata, nil)
		}
		g.strata[i] = append(g.strata[i], b)
	}
	return nil
}

// Selector selects a discriminator of large U(phi, D) = E_real D + 1 - expected[D], for round t from 0.
// expected[j] is the mean score of discriminator j over the weighted candidates. It must not retain or change
// expected.
type Selector interface {
	Select(ctx context.Context, t int, expected []float64) (int, error)
}

// Play plays all rounds (Algorithm 1 of the paper), each with one question to the selector, and calls progress,
// unless it is nil, after each. It ends early on an error of the selector or the context.
func (g *Game) Play(ctx context.Context, s Selector, progress func(done, rounds int)) (*Plays, error) {
	n, rounds := g.candidates, g.options.Rounds
	p := &Plays{Weights: make([]float64, n), Mixture: make([]float64, len(g.scores)), Selected: make([]int, 0, rounds)}
	// logs are the weights' logarithms up to a constant: after many rounds the weights
	// themselves would be 0.
	logs, phi, expected := make([]float64, n), make([]float64, n), make([]float64, len(g.scores))
	for t := range rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, members := range g.strata {
			normalize(phi, logs, members)
		}
		for j, row := range g.scores {
			expected[j] = min(1, dot(phi, row))
		}
		j, err := s.Select(ctx, t, expected)
		if err != nil {
			return nil, fmt.Errorf("pgb: round %d: %w", t, err)
		}
		if j < 0 || j >= len(g.scores) {
			return nil, fmt.Errorf("pgb: round %d: discriminator %d was selected of %d", t, j, len(g.scores))
		}
		p.Selected = append(p.Selected, j)
		for b, d := range g.scores[j] {
			p.Weights[b] += phi[b]
			logs[b] += float64(g.options.Rate * d) // the conversion rounds: it prevents a fused step on any machine
		}
		if progress != nil {
			progress(t+1, rounds)
		}
	}
	for b := range p.Weights {
		p.Weights[b] /= float64(rounds)
	}
	for _, j := range p.Selected {
		p.Mixture[j]++
	}
	for j := range p.Mixture {
		p.Mixture[j] /= float64(rounds)
	}
	return p, nil
}

// normalize computes the weights of the members from these logarithms. They add up to the members' share of all
// candidates.
func normalize(phi, logs []float64, members []int) {
	top := math.Inf(-1)
	for _, b := range members {
		top = math.Max(top, logs[b])
	}
	var sum float64
	for _, b := range members {
		phi[b] = math.Exp(logs[b] - top)
		sum += phi[b]
	}
	share := float64(len(members)) / float64(len(phi))
	for _, b := range members {
		phi[b] *= share / sum
	}
}

// dot sums in a fixed order and rounds each product, so that equal games ask equal questions.
func dot(a, b []float64) float64 {
	var sum [4]float64
	for len(a) >= 4 && len(b) >= 4 {
		sum[0] += float64(a[0] * b[0])
		sum[1] += float64(a[1] * b[1])
		sum[2] += float64(a[2] * b[2])
		sum[3] += float64(a[3] * b[3])
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		sum[0] += float64(v * b[i])
	}
	return sum[0] + sum[1] + (sum[2] + sum[3])
}
