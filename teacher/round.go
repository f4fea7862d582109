package teacher

import (
	"errors"
	"fmt"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// errState is all that leaves the site about trouble with its files.
var errState = errors.New("the node cannot keep its teachers' state; its log says why")

// maxScale is the largest fixed-point unit of a sum.
const maxScale = 1 << 32

// answer computes the node's answer to a question.
func (n *Node) answer(q *question) (*conclavev1.WorkRequest, error) {
	switch {
	case q.round.GetVote() != nil:
		v, err := n.vote(q)
		if err != nil {
			return nil, err
		}
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: v}}, nil
	case q.round.GetSum() != nil:
		s, err := n.sum(q.round)
		if err != nil {
			return nil, err
		}
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: s}}, nil
	}
	return nil, errors.New("the question is of a kind this node does not know; update it")
}

// vote trains the teachers on the round's generated records, lets them vote on
// its queries, and keeps both before the answer leaves. The same question asked
// again gets the same votes and trains nobody.
func (n *Node) vote(q *question) (*conclavev1.Votes, error) {
	a, err := n.checkVote(q.round.GetVote())
	if err != nil {
		return nil, err
	}
	run, number := q.round.Run, q.round.Number
	s, err := n.state(run, a.spec)
	if err != nil {
		return nil, err
	}
	out := &conclavev1.Votes{Run: run, Round: number, Teachers: uint32(n.cfg.Teachers), Queries: uint32(len(a.queries.classes))}
	switch {
	case s.rounds == 0 || number > s.lastRound:
	case number < s.lastRound:
		return nil, fmt.Errorf("round %d of run %q comes after round %d; a run's name is used once, so give a new run another", number, run, s.lastRound)
	case q.sha256 == s.lastQuestion:
		out.Packed = s.lastVotes
		return out, nil
	}
	// From here on the teachers in memory are ahead of those on disk. If they
	// cannot be kept they are dropped: the next question starts from the disk.
	n.current = nil
	if out.Packed, err = n.trainAndVote(s, number, a); err != nil {
		return nil, err
	}
	s.rounds++
	s.lastRound, s.lastQuestion, s.lastVotes = number, q.sha256, out.Packed
	if err := s.save(statePath(n.cfg.State, run)); err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	n.current = s
	return out, nil
}

func (n *Node) trainAndVote(s *runState, round uint64, a *asked) ([]byte, error) {
	examples := n.examples
	if a.standard {
		var err error
		if examples, err = n.standardize(a); err != nil {
			return nil, err
		}
	}
	if len(a.training.classes) > 0 && a.vote != conclavev1.TeacherSpec_VOTE_COIN {
		if err := s.ensemble.Train(examples, a.training.x, a.training.classes, a.steps, a.batch); err != nil {
			return nil, err
		}
	}
	scores := make([]float32, n.cfg.Teachers*len(a.queries.classes))
	if err := s.ensemble.Score(scores, a.queries.x, a.queries.classes); err != nil {
		return nil, err
	}
	votes := castVotes(a.vote, a.spec.Seed, round, scores, a.queries.classes)
	return pack(votes, n.cfg.Teachers, len(a.queries.classes), answerClasses), nil
}

// sum adds up the asked statistic over the node's privacy units.
func (n *Node) sum(r *conclavev1.Round) (*conclavev1.Sum, error) {
	counts := r.GetSum().GetClassCounts()
	if counts == nil {
		return nil, errors.New("the sum is of a kind this node does not know; update it")
	}
	if int64(counts.Classes) != int64(n.classes) {
		return nil, fmt.Errorf("counts of %d classes; the schema has %d, so use the same schema at both sides", counts.Classes, n.classes)
	}
	if counts.Scale < 1 || counts.Scale > maxScale {
		return nil, fmt.Errorf("class counts at scale %d; use 1 to %d", counts.Scale, uint64(maxScale))
	}
	return &conclavev1.Sum{Run: r.Run, Round: r.Number, Values: classCounts(n.unitClasses, n.classes, int64(counts.Scale))}, nil
}

// classCounts adds up the classes of the units' records. A unit with k records
// adds floor(scale/k) for each of them: at most the scale in the L1 norm, and
// so in the L2 norm, however many records it has.
func classCounts(units [][]int, classes int, scale int64) []int64 {
	values := make([]int64, classes)
	for _, unit := range units {
		share := scale / int64(len(unit))
		for _, c := range unit {
			values[c] += share
		}
	}
	return values
}
