package teacher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/nn"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxRoundBytes bounds a round put together from its parts.
const maxRoundBytes = 256 << 20

// assembly puts the parts of a round together.
type assembly struct {
	run   string
	round uint64
	parts uint32
	next  uint32
	data  []byte
}

// add takes the next part and returns the round once it is whole.
func (a *assembly) add(p *conclavev1.RoundPart) (*question, error) {
	if p.Part == 0 {
		*a = assembly{run: p.Run, round: p.Round, parts: p.Parts}
	}
	if p.Run != a.run || p.Round != a.round || p.Part != a.next || p.Parts != a.parts || p.Part >= p.Parts {
		return nil, fmt.Errorf("part %d of %d of round %d of run %q came out of order", p.Part, p.Parts, p.Round, p.Run)
	}
	if len(a.data)+len(p.Data) > maxRoundBytes {
		return nil, fmt.Errorf("round %d of run %q is over %d bytes", p.Round, p.Run, maxRoundBytes)
	}
	a.data = append(a.data, p.Data...)
	a.next++
	if a.next < a.parts {
		return nil, nil
	}
	sum := sha256.Sum256(a.data)
	q := &question{sha256: hex.EncodeToString(sum[:]), round: &conclavev1.Round{}}
	if err := proto.Unmarshal(a.data, q.round); err != nil {
		return nil, fmt.Errorf("round %d of run %q cannot be parsed: %w", p.Round, p.Run, err)
	}
	if q.round.Run != p.Run || q.round.Number != p.Round {
		return nil, fmt.Errorf("the parts of round %d of run %q hold round %d of run %q", p.Round, p.Run, q.round.Number, q.round.Run)
	}
	a.data = nil
	return q, nil
}

// question is a whole round with the hash of its bytes.
type question struct {
	round  *conclavev1.Round
	sha256 string
}

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
// its queries, and keeps both before the answer leaves.
func (n *Node) vote(q *question) (*conclavev1.Votes, error) {
	v := q.round.GetVote()
	training, trainingClasses, err := n.records(v.Training, v.TrainingClasses, v.Teacher.GetClasses())
	if err != nil {
		return nil, fmt.Errorf("training records: %w", err)
	}
	queries, classes, err := n.records(v.Queries, v.QueryClasses, v.Teacher.GetClasses())
	if err != nil {
		return nil, fmt.Errorf("queries: %w", err)
	}
	if v.AnswerClasses != 2 {
		return nil, fmt.Errorf("a vote between %d classes; this node votes real or fake", v.AnswerClasses)
	}
	s, err := n.state(q.round.Run, v.Teacher)
	if err != nil {
		return nil, err
	}
	out := &conclavev1.Votes{Run: q.round.Run, Round: q.round.Number, Teachers: uint32(n.cfg.Teachers), Queries: uint32(len(classes))}
	if s.rounds > 0 && s.lastRound == q.round.Number && s.lastQuestion == q.sha256 {
		out.Packed = s.lastVotes
		return out, nil
	}
	if len(trainingClasses) > 0 && v.Teacher.Vote != conclavev1.TeacherSpec_VOTE_COIN {
		if err := s.ensemble.Train(n.examples, training, trainingClasses, int(v.Teacher.Steps), int(v.Teacher.Batch)); err != nil {
			return nil, err
		}
	}
	scores := make([]float32, n.cfg.Teachers*len(classes))
	if err := s.ensemble.Score(scores, queries, classes); err != nil {
		return nil, err
	}
	votes, err := castVotes(v.Teacher, q.round.Number, scores, classes, n.cfg.Teachers)
	if err != nil {
		return nil, err
	}
	out.Packed = pack(votes, n.cfg.Teachers, len(classes), v.AnswerClasses)
	s.rounds++
	s.lastRound, s.lastQuestion, s.lastVotes = q.round.Number, q.sha256, out.Packed
	if err := s.save(statePath(n.cfg.State, q.round.Run)); err != nil {
		return nil, err
	}
	return out, nil
}

// state returns the run's teachers: those in memory, those on disk, or new
// ones.
func (n *Node) state(run string, spec *conclavev1.TeacherSpec) (*runState, error) {
	hidden := 0
	switch spec.Model {
	case conclavev1.TeacherSpec_MODEL_LOGISTIC:
	case conclavev1.TeacherSpec_MODEL_HIDDEN:
		if hidden = int(spec.Hidden); hidden < 1 || hidden > 4096 {
			return nil, fmt.Errorf("teachers with a hidden layer of %d units; want 1 to 4096", spec.Hidden)
		}
	default:
		return nil, fmt.Errorf("teacher model %v is not known to this node; update it", spec.Model)
	}
	if spec.Steps < 1 || spec.Steps > 10_000 || spec.Batch < 1 || spec.Batch > 1<<20 {
		return nil, fmt.Errorf("teachers train %d steps of %d records in each round; want 1 to 10000 steps of 1 to 1048576 records", spec.Steps, spec.Batch)
	}
	want := nn.EnsembleSpec{
		Models: n.cfg.Teachers, Features: n.encoder.Width(), Classes: n.classes, Hidden: hidden,
		Rate: float64(spec.LearningRate), Decay: float64(spec.WeightDecay), Seed: spec.Seed,
	}
	if n.current != nil && n.run == run {
		if n.current.ensemble.Spec() != want {
			return nil, fmt.Errorf("run %q asks for other teachers than in its first round; use another run name", run)
		}
		return n.current, nil
	}
	fresh, err := nn.NewEnsemble(want)
	if err != nil {
		return nil, err
	}
	s, err := loadState(statePath(n.cfg.State, run), fresh)
	if err != nil {
		return nil, err
	}
	n.run, n.current = run, s
	return s, nil
}

// records checks and unpacks generated records with their classes.
func (n *Node) records(t *conclavev1.Tensor, classes []uint32, classCount uint32) ([]float32, []int, error) {
	if int(classCount) != n.classes {
		return nil, nil, fmt.Errorf("the run has %d classes, the schema %d; both sides need the same schema", classCount, n.classes)
	}
	rows, width := 0, n.encoder.Width()
	if t != nil {
		if len(t.Shape) != 2 || int(t.Shape[1]) != width {
			return nil, nil, fmt.Errorf("shape %v does not fit the schema's %d features; both sides need the same schema", t.Shape, width)
		}
		rows = int(t.Shape[0])
	}
	if len(classes) != rows || (t != nil && len(t.Data) != 4*rows*width) {
		return nil, nil, fmt.Errorf("%d records come with %d classes and %d bytes", rows, len(classes), len(t.GetData()))
	}
	x, err := nn.Floats(t.GetData())
	if err != nil {
		return nil, nil, err
	}
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, nil, errors.New("a generated record is not finite; the student's training has diverged")
		}
	}
	out := make([]int, rows)
	for i, c := range classes {
		if c >= classCount {
			return nil, nil, fmt.Errorf("class %d of %d", c, classCount)
		}
		out[i] = int(c)
	}
	return x, out, nil
}

// sum adds up the asked statistic over the node's privacy units.
func (n *Node) sum(r *conclavev1.Round) (*conclavev1.Sum, error) {
	counts := r.GetSum().GetClassCounts()
	if counts == nil {
		return nil, errors.New("the sum is of a kind this node does not know; update it")
	}
	if int(counts.Classes) != n.classes || counts.Scale < 1 || counts.Scale > 1<<32 {
		return nil, fmt.Errorf("class counts of %d classes at scale %d; the schema has %d, and the scale is 1 to 2^32", counts.Classes, counts.Scale, n.classes)
	}
	values := make([]int64, n.classes)
	for _, unit := range n.unitClasses {
		// Rounded down, so that a unit never adds more than the scale in all.
		share := int64(counts.Scale) / int64(len(unit))
		for _, c := range unit {
			values[c] += share
		}
	}
	return &conclavev1.Sum{Run: r.Run, Round: r.Number, Values: values}, nil
}
