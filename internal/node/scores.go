package node

import (
	"fmt"
	"math"

	"github.com/conclave-dp/conclave/internal/nn"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxScored bounds the discriminators of a question for scores.
const maxScored = 4096

func (n *Node) checkScoreSum(q *conclavev1.ScoreSum) error {
	switch {
	case q.Bound < minBound || q.Bound > maxBound:
		return fmt.Errorf("the fixed-point bound of scores is %d; use %d to %d", q.Bound, minBound, maxBound)
	case len(q.Discriminators) == 0 || len(q.Discriminators) > maxScored:
		return fmt.Errorf("the scores of %d discriminators; ask for 1 to %d", len(q.Discriminators), maxScored)
	}
	for i, d := range q.Discriminators {
		if err := n.scoreWith(d); err != nil {
			return fmt.Errorf("discriminator %d: %w", i+1, err)
		}
	}
	return nil
}

// scoreWith makes the node's discriminator that of the question.
func (n *Node) scoreWith(d *conclavev1.ScoreSum_Scored) error {
	net, err := n.discriminator(d.GetDiscriminator())
	if err != nil {
		return err
	}
	weights, err := nn.Floats(d.Weights)
	if err != nil {
		return err
	}
	if err := net.SetWeights(weights); err != nil {
		return err
	}
	if !d.Discriminator.Standard {
		return nil
	}
	units, err := n.standardOf(d.Mean, d.Scale)
	if err != nil {
		return err
	}
	net.SetUnits(units)
	return nil
}

// scoreSum returns for each discriminator the sum over the node's privacy units of what
// it gives them, in whole steps.
//
// A unit of k records adds for each of them a whole number between -bound/k and bound/k,
// so between -bound and bound in all, and what it adds does not depend on other units. A
// record whose score is no number adds nothing: which records do is not told.
func (n *Node) scoreSum(q *conclavev1.ScoreSum) ([]int64, error) {
	sums := make([]int64, len(q.Discriminators))
	if q.Nothing {
		return sums, nil
	}
	for j, d := range q.Discriminators {
		if err := n.scoreWith(d); err != nil {
			return nil, err
		}
		sums[j] = n.scored.sum(n, int64(q.Bound))
	}
	return sums, nil
}

// sum adds up what the discriminator gives all privacy units.
func (s *scored) sum(n *Node, bound int64) (total int64) {
	var classes []int
	var most []int64 // of each record
	x := s.x[:0]
	flush := func() {
		for i, v := range s.net.Scores(x, classes) {
			total += steps(v, most[i])
		}
		x, classes, most = x[:0], classes[:0], most[:0]
	}
	for _, unit := range n.units {
		for _, r := range unit {
			x = append(x, n.examples[r.teacher].ByClass[r.class][r.at*n.features:(r.at+1)*n.features]...)
			classes, most = append(classes, r.class), append(most, bound/int64(len(unit)))
		}
		if len(classes) >= sampleChunk {
			flush()
		}
	}
	flush()
	s.x = x
	return total
}

// steps is 2 p - 1, the hyperbolic tangent of half the score, in whole steps of which most
// stand for 1; 0 where the score is no number.
func steps(score float32, most int64) int64 {
	t := math.Tanh(float64(score) / 2)
	if math.IsNaN(t) {
		return 0
	}
	return int64(math.Round(t * float64(most)))
}
