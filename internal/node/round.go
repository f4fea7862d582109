package node

import (
	"errors"
	"fmt"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// errState is all that leaves the site about trouble with its files.
var errState = errors.New("the node cannot keep its teachers' state; its log says why")

// answer computes the node's answer to a question.
func (n *Node) answer(q *question) (*conclavev1.WorkRequest, error) {
	run, number := q.round.Run, q.round.Number
	switch {
	case q.round.GetVote().GetGradient() != nil:
		g, err := n.checkGradientVote(q.round.GetVote())
		if err != nil {
			return nil, err
		}
		return n.trained(q, &g.asked, func(l *lesson) (*conclavev1.WorkRequest, error) {
			packed, err := l.gradientVotes(g, number)
			return votesMessage(run, number, n.cfg.Teachers, g.queries(), packed), err
		})
	case q.round.GetVote() != nil:
		a, err := n.checkVote(q.round.GetVote())
		if err != nil {
			return nil, err
		}
		return n.trained(q, a, func(l *lesson) (*conclavev1.WorkRequest, error) {
			packed, err := l.votes(number)
			return votesMessage(run, number, n.cfg.Teachers, len(a.queries.classes), packed), err
		})
	case q.round.GetSum().GetGradients() != nil:
		g, err := n.checkGradientSum(q.round.GetSum().GetGradients())
		if err != nil {
			return nil, err
		}
		return n.trained(q, &g.asked, func(l *lesson) (*conclavev1.WorkRequest, error) {
			values, err := l.gradientSum(g, number)
			return sumMessage(run, number, values), err
		})
	case q.round.GetSum().GetDiscriminator() != nil:
		a, err := n.checkDiscriminatorSum(q.round.GetSum().GetDiscriminator())
		if err != nil {
			return nil, err
		}
		values, err := n.discriminatorSum(a)
		if err != nil {
			return nil, err
		}
		return sumMessage(run, number, values), nil
	case q.round.GetSum().GetEmbedding() != nil:
		a, err := n.checkEmbeddingSum(q.round.GetSum().GetEmbedding())
		if err != nil {
			return nil, err
		}
		values, err := n.embeddingSum(a)
		if err != nil {
			return nil, err
		}
		return sumMessage(run, number, values), nil
	case q.round.GetSum().GetScores() != nil:
		if err := n.checkScoreSum(q.round.GetSum().GetScores()); err != nil {
			return nil, err
		}
		values, err := n.scoreSum(q.round.GetSum().GetScores())
		if err != nil {
			return nil, err
		}
		return sumMessage(run, number, values), nil
	case q.round.GetSum().GetLogistic() != nil:
		a, err := n.checkLogisticSum(q.round.GetSum().GetLogistic())
		if err != nil {
			return nil, err
		}
		values, err := n.logisticSum(a)
		if err != nil {
			return nil, err
		}
		return sumMessage(run, number, values), nil
	case q.round.GetSum() != nil:
		values, err := n.classCounts(q.round.GetSum().GetClassCounts())
		if err != nil {
			return nil, err
		}
		return sumMessage(run, number, values), nil
	}
	return nil, errors.New("the question is of a kind this node does not know; update it")
}

// check is what answer checks of a question to teachers before it does anything.
func (n *Node) check(r *conclavev1.Round) (err error) {
	switch {
	case r.GetVote().GetGradient() != nil:
		_, err = n.checkGradientVote(r.GetVote())
	case r.GetVote() != nil:
		_, err = n.checkVote(r.GetVote())
	case r.GetSum().GetGradients() != nil:
		_, err = n.checkGradientSum(r.GetSum().GetGradients())
	case r.GetSum().GetDiscriminator() != nil:
		_, err = n.checkDiscriminatorSum(r.GetSum().GetDiscriminator())
	case r.GetSum().GetEmbedding() != nil:
		_, err = n.checkEmbeddingSum(r.GetSum().GetEmbedding())
	case r.GetFit() != nil:
		_, err = n.ratioFeatures(r.GetFit().GetFeatures())
	case r.GetSum().GetScores() != nil:
		err = n.checkScoreSum(r.GetSum().GetScores())
	}
	return err
}

func votesMessage(run string, round uint64, teachers, queries int, packed []byte) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
		Run: run, Round: round, Teachers: uint32(teachers), Queries: uint32(queries), Packed: packed,
	}}}
}

func sumMessage(run string, round uint64, values []int64) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Run: run, Round: round, Values: values}}}
}

// trained lets the run's teachers learn from a round and then answer it, and
// keeps both before the answer leaves (large teachers only now and then). The same
// question asked again gets the same answer and trains nobody.
func (n *Node) trained(q *question, a *asked, answer func(*lesson) (*conclavev1.WorkRequest, error)) (*conclavev1.WorkRequest, error) {
	run, number := q.round.Run, q.round.Number
	s, err := n.state(run, a.spec)
	if err != nil {
		return nil, err
	}
	switch {
	case s.rounds == 0 || number > s.lastRound:
	case number < s.lastRound:
		return nil, fmt.Errorf("round %d of run %q comes after round %d; a run's name is used once, so give a new run another", number, run, s.lastRound)
	case q.sha256 == s.lastQuestion:
		return s.answerAgain()
	}
	// From here on the teachers in memory are ahead of those on disk. If they
	// cannot be kept they are dropped: the next question starts from the disk.
	n.current = nil
	round, err := n.prepare(s, a)
	if err != nil {
		return nil, err
	}
	message, err := answer(round)
	if err != nil {
		return nil, err
	}
	if err := s.answered(number, q.sha256, message); err != nil {
		return nil, err
	}
	if err := s.keep(statePath(n.cfg.State, run)); err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	n.current = s
	return message, nil
}
