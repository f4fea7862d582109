// Package shape has the questions that an aggregator answers: what each asks of the nodes, what
// an answer must look like, and how the release is drawn.
package shape

import (
	"encoding/binary"
	"math"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Parser returns what reads the questions of rounds, with coin votes allowed or not.
func Parser(allowCoin bool) round.Parse {
	return func(r *conclavev1.Round, s *spec.Spec, cached func(uint64) (round.Sums, bool)) (round.Question, error) {
		kind := runspec.KindOf(r)
		if kind == "" {
			return nil, asksNothing(r)
		}
		planned, err := s.Pays(kind, r.GetPlanned())
		if err != nil {
			return nil, err
		}
		switch q := r.GetQuestion().(type) {
		case *conclavev1.Round_Vote:
			return newVotes(q.Vote, planned, s, allowCoin)
		case *conclavev1.Round_Selection:
			sums, ok := cached(q.Selection.GetScoresRound())
			if !ok {
				return nil, round.ErrNotCached(r.GetRun(), q.Selection.GetScoresRound())
			}
			selects, err := newSelection(q.Selection, len(sums.Sums), sums.Bound, planned, s)
			if err != nil {
				return nil, err
			}
			return &cachedSelection{selects, sums}, nil
		case *conclavev1.Round_Fit:
			return newFit(q.Fit, planned, s, allowCoin)
		case *conclavev1.Round_Sum:
			switch statistic := q.Sum.GetStatistic().(type) {
			case *conclavev1.SumQuestion_ClassCounts:
				return newClassCounts(statistic.ClassCounts, planned, s)
			case *conclavev1.SumQuestion_Gradients:
				return newGradientSum(statistic.Gradients, planned, s, allowCoin)
			case *conclavev1.SumQuestion_Discriminator:
				return newDiscriminatorSum(statistic.Discriminator, planned, s, allowCoin)
			case *conclavev1.SumQuestion_Embedding:
				return newEmbeddingSum(statistic.Embedding, planned, s, allowCoin)
			case *conclavev1.SumQuestion_Scores:
				return newScoreSum(statistic.Scores, r.GetNumber(), planned, s, allowCoin)
			}
		}
		return nil, asksNothing(r)
	}
}

func asksNothing(r *conclavev1.Round) error {
	return fault.Invalidf("round %d of run %q asks nothing; set vote, selection, fit, or sum with class_counts, "+
		"gradients, "+
		"discriminator, embedding or scores", r.GetNumber(), r.GetRun())
}

// matrixShape checks a [rows, columns] tensor of finite values and returns its
// shape. An absent tensor has no rows.
func matrixShape(name string, t *conclavev1.Tensor) (rows, columns int, err error) {
	if t == nil {
		return 0, 0, nil
	}
	if len(t.GetShape()) != 2 {
		return 0, 0, fault.Invalidf("%s has %d dimensions; send [rows, features]", name, len(t.GetShape()))
	}
	r, c := uint64(t.GetShape()[0]), uint64(t.GetShape()[1])
	if c == 0 || c > maxFeatures {
		return 0, 0, fault.Invalidf("%s has %d features; send 1 to %d", name, c, maxFeatures)
	}
	if r*c*4 != uint64(len(t.GetData())) {
		return 0, 0, fault.Invalidf("%s of shape [%d, %d] holds %d bytes; send 4 per value", name, r, c,
			len(t.GetData()))
	}
	if i := firstNotFinite(t.GetData()); i >= 0 {
		return 0, 0, fault.Invalidf("%s holds a value that is not finite in row %d, feature %d",
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
		return fault.Invalidf("%s holds %d class ids for %d rows", name, len(ids), rows)
	}
	for i, id := range ids {
		if id >= classes {
			return fault.Invalidf("%s: class %d of row %d is out of range 0 to %d", name, id, i, classes-1)
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
