package aggregator

import (
	"fmt"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Bounds of a vote question. They keep every message below gRPC's 4 MiB, every
// release, however its noise falls, below coordinator.MaxRelease, and the noise
// of a round within seconds.
const (
	maxFeatures      = 1 << 20
	maxQueries       = 1 << 16
	maxHistogram     = 1 << 17
	maxClasses       = 1 << 16
	maxAnswerClasses = 256
	// maxAnswerBytes leaves room for the fields around packed votes.
	maxAnswerBytes = maxMessageBytes - 1024
)

// voteQuestion asks every teacher for one class per query.
type voteQuestion struct {
	queries, classes int
	mechanism        gnmax.Mechanism
	whole            bool
}

func newVoteQuestion(q *conclavev1.VoteQuestion, spec *runSpec, allowCoin bool) (*voteQuestion, error) {
	teacher := q.GetTeacher()
	if err := checkTeacher(teacher); err != nil {
		return nil, err
	}
	if teacher.GetVote() == conclavev1.TeacherSpec_VOTE_COIN && !(allowCoin && spec.pb.GetCoinVotes()) {
		return nil, refusedf("coin votes are the baseline of local runs that were opened with coin_votes; ask for relative, calibrated or plain votes")
	}
	classes := q.GetAnswerClasses()
	if classes < 2 || classes > maxAnswerClasses {
		return nil, invalidf("answer_classes is %d; it must be 2 to %d", classes, maxAnswerClasses)
	}
	if classes != 2 && teacher.GetVote() != conclavev1.TeacherSpec_VOTE_COIN {
		return nil, invalidf("answer_classes is %d; relative, calibrated and plain votes choose between 2", classes)
	}
	batch, batchFeatures, err := matrixShape("training", q.GetTraining())
	if err != nil {
		return nil, err
	}
	queries, features, err := matrixShape("queries", q.GetQueries())
	if err != nil {
		return nil, err
	}
	switch {
	case queries == 0 || queries > maxQueries:
		return nil, invalidf("a round asks %d queries; ask 1 to %d", queries, maxQueries)
	case queries*int(classes) > maxHistogram:
		return nil, invalidf("%d queries x %d classes are more than %d counts; ask fewer queries in a round", queries, classes, maxHistogram)
	case batch > 0 && batchFeatures != features:
		return nil, invalidf("training has %d features and queries have %d; they must be equal", batchFeatures, features)
	}
	if err := checkClasses("training_classes", q.GetTrainingClasses(), batch, teacher.GetClasses()); err != nil {
		return nil, err
	}
	if err := checkClasses("query_classes", q.GetQueryClasses(), queries, teacher.GetClasses()); err != nil {
		return nil, err
	}
	return &voteQuestion{
		queries:   queries,
		classes:   int(classes),
		mechanism: spec.mechanism,
		whole:     spec.pb.GetMechanism().GetWholeHistogram(),
	}, nil
}

// checkTeacher checks what every node would otherwise have to refuse.
func checkTeacher(t *conclavev1.TeacherSpec) error {
	switch t.GetModel() {
	case conclavev1.TeacherSpec_MODEL_LOGISTIC:
	case conclavev1.TeacherSpec_MODEL_HIDDEN:
		if t.GetHidden() == 0 {
			return invalidf("teacher.hidden is 0; a hidden layer needs at least one unit")
		}
	default:
		return invalidf("teacher.model %v is unknown; use logistic or hidden", t.GetModel())
	}
	switch t.GetVote() {
	case conclavev1.TeacherSpec_VOTE_RELATIVE, conclavev1.TeacherSpec_VOTE_PLAIN, conclavev1.TeacherSpec_VOTE_CALIBRATED, conclavev1.TeacherSpec_VOTE_COIN:
	default:
		return invalidf("teacher.vote %v is unknown; use relative, calibrated or plain", t.GetVote())
	}
	switch t.GetFeatures() {
	case conclavev1.TeacherSpec_FEATURES_PLAIN, conclavev1.TeacherSpec_FEATURES_STANDARD:
	default:
		return invalidf("teacher.features %v is unknown; use standard or plain", t.GetFeatures())
	}
	if t.GetClasses() == 0 || t.GetClasses() > maxClasses {
		return invalidf("teacher.classes is %d; it must be 1 to %d", t.GetClasses(), maxClasses)
	}
	if !finite32(t.GetLearningRate()) || t.GetLearningRate() < 0 {
		return invalidf("teacher.learning_rate must be a number of at least 0")
	}
	if !finite32(t.GetWeightDecay()) || t.GetWeightDecay() < 0 {
		return invalidf("teacher.weight_decay must be a number of at least 0")
	}
	return nil
}

func (q *voteQuestion) purpose() string { return "labels" }

func (q *voteQuestion) length() int { return q.queries * q.classes }

func (q *voteQuestion) fits(teachers uint32) error {
	if bytes := int(teachers) * voteRowBytes(q.queries, q.classes); bytes > maxAnswerBytes {
		return fmt.Errorf("the votes of %d teachers on %d queries take %d bytes, more than a message holds (%d); ask fewer queries in a round",
			teachers, q.queries, bytes, maxAnswerBytes)
	}
	return nil
}

func (q *voteQuestion) read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error) {
	votes := answer.GetVotes()
	if votes == nil {
		return nil, fmt.Errorf("a sum where votes were asked")
	}
	if votes.GetTeachers() != teachers {
		return nil, fmt.Errorf("votes of %d teachers from a node that has %d", votes.GetTeachers(), teachers)
	}
	if int(votes.GetQueries()) != q.queries {
		return nil, fmt.Errorf("votes on %d queries where %d were asked", votes.GetQueries(), q.queries)
	}
	return tallyVotes(votes.GetPacked(), int(teachers), q.queries, q.classes)
}

func (q *voteQuestion) worst() []privacy.Event { return q.mechanism.Worst(int64(q.queries)) }

func (q *voteQuestion) answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (cost, error) {
	out := &conclavev1.NoisyVotes{
		Classes: uint32(q.classes),
		Labels:  make([]int32, q.queries),
	}
	if q.whole {
		out.Histogram = make([]int64, q.queries*q.classes)
	}
	answered := int64(0)
	for i := range q.queries {
		a, err := q.mechanism.Answer(src, counts[i*q.classes:(i+1)*q.classes])
		if err != nil {
			return cost{}, fmt.Errorf("draw the answer to query %d: %w", i, err)
		}
		out.Labels[i] = -1
		if !a.Answered {
			continue
		}
		answered++
		out.Labels[i] = int32(a.Winner)
		if q.whole {
			for class, v := range a.Noisy {
				out.Histogram[i*q.classes+class] = clampNoisyVotes(v)
			}
		}
	}
	r.Answer = &conclavev1.Release_Votes{Votes: out}
	asked := int64(q.queries)
	return cost{events: q.mechanism.Cost(asked, answered), queries: asked, answered: answered}, nil
}
