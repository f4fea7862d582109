package shape

import (
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// batch is what a question to teachers holds: how they learn, what they learn
// from in the round, and the records that they are asked about.
type batch interface {
	GetTeacher() *conclavev1.TeacherSpec
	GetTraining() *conclavev1.Tensor
	GetTrainingClasses() []uint32
	GetQueries() *conclavev1.Tensor
	GetQueryClasses() []uint32
}

// checkBatch checks a batch and returns the shape of the records asked about.
func checkBatch(q batch, run *spec.Spec, allowCoin bool) (records, features int, err error) {
	teacher := q.GetTeacher()
	if err := checkTeacher(teacher); err != nil {
		return 0, 0, err
	}
	if teacher.GetVote() == conclavev1.TeacherSpec_VOTE_COIN && !(allowCoin && run.PB.GetCoinVotes()) {
		return 0, 0, fault.Refusedf("coin votes are the baseline of local runs that were opened with coin_votes; ask " +
			"for relative, calibrated, plain or gradient votes")
	}
	training, trainingFeatures, err := matrixShape("training", q.GetTraining())
	if err != nil {
		return 0, 0, err
	}
	records, features, err = matrixShape("queries", q.GetQueries())
	if err != nil {
		return 0, 0, err
	}
	switch {
	case records == 0 || records > maxQueries:
		return 0, 0, fault.Invalidf("a round asks about %d records; ask about 1 to %d", records, maxQueries)
	case training > 0 && trainingFeatures != features:
		return 0, 0, fault.Invalidf("training has %d features and queries have %d; they must be equal",
			trainingFeatures, features)
	}
	if err := checkClasses("training_classes", q.GetTrainingClasses(), training, teacher.GetClasses()); err != nil {
		return 0, 0, err
	}
	return records, features, checkClasses("query_classes", q.GetQueryClasses(), records, teacher.GetClasses())
}

// checkTeacher checks what every node would otherwise have to refuse.
func checkTeacher(t *conclavev1.TeacherSpec) error {
	switch t.GetModel() {
	case conclavev1.TeacherSpec_MODEL_ENERGY:
	case conclavev1.TeacherSpec_MODEL_LOGISTIC:
		if t.GetShared() {
			return fault.Invalidf("teacher.shared is set; teachers without a hidden layer need a network for every class")
		}
	case conclavev1.TeacherSpec_MODEL_HIDDEN, conclavev1.TeacherSpec_MODEL_CONVOLUTION:
		if t.GetHidden() == 0 {
			return fault.Invalidf("teacher.hidden is 0; a hidden layer needs at least one unit, a convolution at " +
				"least one channel")
		}
	default:
		return fault.Invalidf("teacher.model %v is unknown; use logistic, hidden, convolution or energy", t.GetModel())
	}
	switch t.GetVote() {
	case conclavev1.TeacherSpec_VOTE_RELATIVE, conclavev1.TeacherSpec_VOTE_PLAIN,
		conclavev1.TeacherSpec_VOTE_CALIBRATED,
		conclavev1.TeacherSpec_VOTE_GRADIENT, conclavev1.TeacherSpec_VOTE_COIN:
	default:
		return fault.Invalidf("teacher.vote %v is unknown; use relative, calibrated, plain or gradient", t.GetVote())
	}
	if v := t.GetVote(); t.GetFresh() && v != conclavev1.TeacherSpec_VOTE_GRADIENT &&
		v != conclavev1.TeacherSpec_VOTE_COIN {
		return fault.Invalidf("teacher.fresh is set; teachers that begin anew in every round are for gradients")
	}
	switch t.GetFeatures() {
	case conclavev1.TeacherSpec_FEATURES_PLAIN, conclavev1.TeacherSpec_FEATURES_STANDARD:
	case conclavev1.TeacherSpec_FEATURES_COSINES:
		if t.GetCosines() == 0 {
			return fault.Invalidf("teacher.cosines is 0; teachers must see at least one coefficient of an image")
		}
	default:
		return fault.Invalidf("teacher.features %v is unknown; use standard, plain or cosines", t.GetFeatures())
	}
	if t.GetClasses() == 0 || t.GetClasses() > maxClasses {
		return fault.Invalidf("teacher.classes is %d; it must be 1 to %d", t.GetClasses(), maxClasses)
	}
	if !finite32(t.GetLearningRate()) || t.GetLearningRate() < 0 {
		return fault.Invalidf("teacher.learning_rate must be a number of at least 0")
	}
	if !finite32(t.GetWeightDecay()) || t.GetWeightDecay() < 0 {
		return fault.Invalidf("teacher.weight_decay must be a number of at least 0")
	}
	return nil
}

// gradientLength is how many numbers the gradient at a record has, by the features that
// teachers see: of standard ones, which add squares, by the columns.
func gradientLength(t *conclavev1.TeacherSpec, features int) (int, error) {
	if t.GetFeatures() != conclavev1.TeacherSpec_FEATURES_COSINES {
		return features, nil
	}
	if int64(t.GetCosines()) > int64(features) {
		return 0, fault.Invalidf("teacher.cosines is %d, more than the %d pixels of an image", t.GetCosines(), features)
	}
	return int(t.GetCosines()), nil
}

// checkProjection checks the directions of votes on gradients.
func checkProjection(p *conclavev1.Projection, features int) error {
	if k := p.GetDirections(); k < 1 || int64(k) > int64(features) {
		return fault.Invalidf("gradients of %d features are voted on in %d directions; use 1 to %d", features, k,
			features)
	}
	if c := p.GetClip(); !finite32(c) || c <= 0 {
		return fault.Invalidf("gradients are clipped at %v; use a number above 0", c)
	}
	return nil
}
