package aggregator

import (
	"encoding/binary"
	"math"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// question is what a round asks of the nodes.
type question interface {
	// length is the number of counts that are added up over the nodes.
	length() int
	// read checks one node's answer and returns its counts.
	read(answer *conclavev1.WorkRequest, teachers uint32) ([]int64, error)
	// fits says whether the answer of a node with so many teachers can be sent
	// in one message.
	fits(teachers uint32) error
	// largest is the most bytes that the stored release can have.
	largest() int
	// queries is how often the mechanism of the plan's entry is used.
	queries() int64
	// answer draws the release from the summed counts, writes it to r, and returns how many
	// queries it answered.
	answer(src *gnmax.Source, counts []int64, r *conclavev1.Release) (answered int64, err error)
}

// parseQuestion checks what a round asks against its run.
func parseQuestion(p *payload, r *run, allowCoin bool) (question, error) {
	spec, kind := r.spec, questionKind(p.round)
	if kind == "" {
		return nil, asksNothing(p.key)
	}
	planned, err := spec.pays(kind, p.round.GetPlanned())
	if err != nil {
		return nil, err
	}
	switch q := p.round.GetQuestion().(type) {
	case *conclavev1.Round_Vote:
		return newVoteQuestion(q.Vote, planned, spec, allowCoin)
	case *conclavev1.Round_Selection:
		held := r.scores(q.Selection.GetScoresRound())
		if held == nil {
			return nil, errNotHeld(p.key.run, q.Selection.GetScoresRound())
		}
		s, err := newSelection(q.Selection, len(held.sums), held.bound, planned, spec)
		if err != nil {
			return nil, err
		}
		return &heldSelection{s, held}, nil
	case *conclavev1.Round_Fit:
		return newFit(q.Fit, planned, spec, allowCoin)
	case *conclavev1.Round_Sum:
		switch statistic := q.Sum.GetStatistic().(type) {
		case *conclavev1.SumQuestion_ClassCounts:
			return newClassCounts(statistic.ClassCounts, planned, spec)
		case *conclavev1.SumQuestion_Gradients:
			return newGradientSum(statistic.Gradients, planned, spec, allowCoin)
		case *conclavev1.SumQuestion_Discriminator:
			return newDiscriminatorSum(statistic.Discriminator, planned, spec, allowCoin)
		case *conclavev1.SumQuestion_Embedding:
			return newEmbeddingSum(statistic.Embedding, planned, spec, allowCoin)
		case *conclavev1.SumQuestion_Scores:
			return newScoreSum(statistic.Scores, p.key.number, planned, spec, allowCoin)
		}
	}
	return nil, asksNothing(p.key)
}

func asksNothing(key roundKey) error {
	return invalidf("round %d of run %q asks nothing; set vote, selection, fit, or sum with class_counts, gradients, "+
		"discriminator, embedding or scores", key.number, key.run)
}

// questionKind is what a plan calls the question of a round, empty for none that a student
// may ask: the passes of a fit are the aggregator's own.
func questionKind(r *conclavev1.Round) string {
	switch {
	case r.GetVote().GetGradient() != nil:
		return runspec.GradientVotes
	case r.GetVote() != nil:
		return runspec.Votes
	case r.GetSelection() != nil, r.GetSum().GetScores() != nil:
		return runspec.Scores
	case r.GetFit() != nil:
		return runspec.Fit
	case r.GetSum().GetGradients() != nil:
		return runspec.GradientSums
	case r.GetSum().GetDiscriminator() != nil:
		return runspec.Discriminator
	case r.GetSum().GetEmbedding() != nil:
		return runspec.Embedding
	case r.GetSum().GetClassCounts() != nil:
		return runspec.ClassCounts
	}
	return ""
}

// matrixShape checks a [rows, columns] tensor of finite values and returns its
// shape. An absent tensor has no rows.
func matrixShape(name string, t *conclavev1.Tensor) (rows, columns int, err error) {
	if t == nil {
		return 0, 0, nil
	}
	if len(t.GetShape()) != 2 {
		return 0, 0, invalidf("%s has %d dimensions; send [rows, features]", name, len(t.GetShape()))
	}
	r, c := uint64(t.GetShape()[0]), uint64(t.GetShape()[1])
	if c == 0 || c > maxFeatures {
		return 0, 0, invalidf("%s has %d features; send 1 to %d", name, c, maxFeatures)
	}
	if r*c*4 != uint64(len(t.GetData())) {
		return 0, 0, invalidf("%s of shape [%d, %d] holds %d bytes; send 4 per value", name, r, c, len(t.GetData()))
	}
	if i := firstNotFinite(t.GetData()); i >= 0 {
		return 0, 0, invalidf("%s holds a value that is not finite in row %d, feature %d",
			name, uint64(i)/c, uint64(i)%c)
	}
	return int(r), int(c), nil
}

// firstNotFinite returns the index of the first NaN or infinity in
// little-endian float32 values, -1 when there is none.
func firstNotFinite(data []byte) int {
	const exponent = 0x7f800000
	for i := 0; i+4 <= len(data); i += 4 {
		if binary.LittleEndian.Uint32(data[i:])&exponent == exponent {
			return i / 4
		}
	}
	return -1
}

// checkClasses checks that there is one class per row and that each is below
// the number of classes.
func checkClasses(name string, ids []uint32, rows int, classes uint32) error {
	if len(ids) != rows {
		return invalidf("%s holds %d class ids for %d rows", name, len(ids), rows)
	}
	for i, id := range ids {
		if id >= classes {
			return invalidf("%s: class %d of row %d is out of range 0 to %d", name, id, i, classes-1)
		}
	}
	return nil
}

func finite32(v float32) bool {
	return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
}

// float32At reads the little-endian value at an offset.
func float32At(data []byte, at int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(data[at:]))
}
