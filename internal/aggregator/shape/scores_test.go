package shape

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The release of a selection is within what is set aside for it.
func TestNoSelectionIsLargerThanItsBound(t *testing.T) {
	r := largestRelease()
	r.Answer = &conclavev1.Release_Selected{Selected: &conclavev1.Selected{Index: math.MaxUint32}}
	checkSize(t, &selection{}, r)
}

// FuzzScores decodes a question for scores and a node's answer from the wire: no input may
// panic, and a question that is taken is charged one selection, and selects among what it
// named.
func FuzzScores(f *testing.F) {
	spec := mustSpec(f, roundtest.SelectionsOf(1.5, 3))
	raw := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		testkit.Must(f, err)
		return b
	}
	answer := func(values ...int64) []byte {
		return raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: values}}})
	}
	f.Add(raw(roundtest.ScoreRound("r", 1, roundtest.Units(0, 0), nil)),
		answer(maxUnits*roundtest.Unit, -maxUnits*roundtest.Unit))
	f.Add(raw(roundtest.ScoreRound("r", 1, roundtest.Units(0, 0), nil)), answer(maxUnits*roundtest.Unit+1, 0))
	f.Add(raw(roundtest.ScoreRound("r", 1, roundtest.Units(1, -1), func(q *conclavev1.ScoreSum) {
		q.Complements, q.Selection.Expected, q.Selection.Records = true, roundtest.Units(1, -1, -1, 1), maxUnits
	})), answer(1, 2))
	f.Add(raw(roundtest.SelectionRound("r", 1, roundtest.Units(0, 0), nil)), answer(1))
	for name, bad := range roundtest.BadScores() {
		if name != "too many" && name != "many weights" {
			f.Add(raw(roundtest.ScoreRound("r", 1, roundtest.Units(0, 0), bad.Change)), answer(1, 2))
		}
	}
	f.Fuzz(func(t *testing.T, question, answer []byte) {
		round, reply := new(conclavev1.Round), new(conclavev1.WorkRequest)
		if proto.Unmarshal(question, round) != nil || proto.Unmarshal(answer, reply) != nil {
			return
		}
		q, err := parse(round, spec, true)
		if err != nil {
			return
		}
		s, ok := q.(*scoreSum)
		if !ok {
			return
		}
		if q.Length() != len(round.GetSum().GetScores().GetDiscriminators()) || q.Queries() != 1 ||
			round.GetPlanned() != 0 {
			t.Fatalf("a question for %d sums, %d uses of entry %d", q.Length(), q.Queries(), round.GetPlanned())
		}
		counts, err := q.Read(reply, 3)
		if err != nil {
			return
		}
		r := &conclavev1.Release{Teachers: 3}
		answered, err := q.Answer(gnmax.NewSource(), counts, r)
		if err != nil || int(r.GetSelected().GetIndex()) >= len(s.expected) || answered != 1 {
			t.Fatalf("released %v for %d answers, %v", r, answered, err)
		}
	})
}
