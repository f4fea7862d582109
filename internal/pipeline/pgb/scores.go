package pgb

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/question"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// ScoreSum asks for the sums, over all privacy units, of the scores that several discriminators give them.
var ScoreSum = question.Kind{Name: "scores", Read: question.Typed(readScoreSum)}

// maxScored bounds the discriminators of a question for scores.
const maxScored = 4096

func readScoreSum(p *question.Public, q *conclavev1.ScoreSum) (*question.Checked, error) {
	n := len(q.Discriminators)
	if err := question.CheckBound("scores", q.Bound); err != nil {
		return nil, err
	}
	if n == 0 || n > maxScored {
		return nil, fmt.Errorf("the scores of %d discriminators; ask for 1 to %d", n, maxScored)
	}
	for i, d := range q.Discriminators {
		if _, err := scored(p, d); err != nil {
			return nil, fmt.Errorf("discriminator %d: %w", i+1, err)
		}
	}
	return &question.Checked{
		Shape:    scoreShape(n, int64(q.Bound), q.Together),
		Baseline: q.Nothing,
		Sum: func(s *question.Site, _ question.Round) ([]int64, error) {
			if q.Nothing {
				return make([]int64, n), nil
			}
			return scoreSum(s, q)
		},
	}, nil
}

// scoreShape is the shape of the sums of n scores. Each of a unit's scores is within the bound, so their vector
// has an L2 norm of at most the bound times the square root of n.
func scoreShape(n int, bound int64, together bool) question.Shape {
	v := &question.Vector{Entries: n, Bound: bound, Norm: question.Each, Rate: 1}
	if together {
		v.Norm, v.Bound = question.L2, int64(math.Ceil(float64(bound)*math.Sqrt(float64(n))))
	}
	return question.Shape{Sum: v}
}

// togetherBound is the fixed-point unit for n scores whose sums get noise: the finest that is allowed.
func togetherBound(n int) uint64 {
	bound := uint64(question.MaxBound)
	for bound > question.MinBound && float64(bound)*math.Sqrt(float64(n)) > question.MaxBound {
		bound /= 2
	}
	return bound
}

// scored builds one discriminator of a question.
func scored(p *question.Public, d *conclavev1.ScoreSum_Scored) (*discriminator.Discriminator, error) {
	return discriminator.Described(p, d.GetDiscriminator(), d.GetWeights(), d.GetMean(), d.GetScale())
}

// scoreSum returns, for each discriminator, the sum of its scores over the site's privacy units, in whole
// steps.
//
// Each of the k records of a unit adds a whole number between -bound/k and bound/k, so the unit adds between
// -bound and bound, independently of other units. A record whose score is NaN adds nothing, and the answer does
// not tell which records do.
func scoreSum(s *question.Site, q *conclavev1.ScoreSum) ([]int64, error) {
	sums := make([]int64, len(q.Discriminators))
	for j, d := range q.Discriminators {
		net, err := scored(s.Public, d)
		if err != nil {
			return nil, err
		}
		if err := s.Wanted(); err != nil {
			return nil, err
		}
		sums[j] = addScores(s, net, int64(q.Bound))
	}
	return sums, nil
}

// chunk is about how many records are processed at a time: it bounds the memory.
const chunk = 512

// addScores adds up the scores that a discriminator gives all privacy units.
func addScores(s *question.Site, net *discriminator.Discriminator, bound int64) (total int64) {
	var x []float32
	var classes []int
	var most []int64 // of each record
	flush := func() {
		for i, v := range net.Scores(x, classes) {
			total += scoreSteps(v, most[i])
		}
		x, classes, most = x[:0], classes[:0], most[:0]
	}
	for _, unit := range s.Units {
		for _, r := range unit {
			x = append(x, s.Record(r)...)
			classes, most = append(classes, r.Class), append(most, bound/int64(len(unit)))
		}
		if len(classes) >= chunk {
			flush()
		}
	}
	flush()
	return total
}

// scoreSteps is 2 p - 1, the hyperbolic tangent of half the score, in whole steps, `most` for 1; it is 0 if the
// score is NaN.
func scoreSteps(score float32, most int64) int64 {
	t := math.Tanh(float64(score) / 2)
	if math.IsNaN(t) {
		return 0
	}
	return int64(math.Round(t * float64(most)))
}
