package node

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Oversized terms are not decoded: empty plan entries take sixty times their size in memory.
func TestLargeTermsAreNotRead(t *testing.T) {
	named := testkit.Value(proto.Marshal(&conclavev1.RunSpec{Name: "r"}))
	entry := []byte{0xfa, 0x7f, 0} // an unknown field, three bytes long
	for _, c := range []struct {
		bytes int
		read  bool
	}{{runspec.MaxBytes, true}, {runspec.MaxBytes + 3, false}} {
		spec := append(bytes.Clone(named), bytes.Repeat(entry, (c.bytes-len(named))/3)...)
		if c.read != (len(spec) <= runspec.MaxBytes) {
			t.Fatalf("%d bytes", len(spec))
		}
		if got := announcedBy(&conclavev1.RoundTerms{Spec: spec}); (got.RunSpec != nil) != c.read {
			t.Errorf("terms of %d bytes were read: %v", len(spec), got.RunSpec != nil)
		}
	}
}

// A shape with a smaller bound than the parameters have would make the aggregator draw too little noise.
func TestAShapeThatIsNotThatOfItsParametersIsRefused(t *testing.T) {
	n := start(t, smallConfig(t, 4), questiontest.SmallTable(t, 80, 1))
	for bound, refused := range map[uint64]bool{0: false, 1 << 8: true} {
		r := discriminatorRound("r", 0, nil)
		if bound > 0 {
			r.GetSum().Bound = bound
		}
		m := n.reply(task{run: "r", question: &received{round: r, digest: func() string { return "x" }}})
		if (m.GetRefusal() != nil) != refused {
			t.Errorf("a shape with a bound of %d (0: its own): refused %v", bound, m.GetRefusal())
		}
	}
}

// Only a run opened as a baseline may ask a question that no record influences: in another run its answer would pass
// for a real one.
func TestABaselineIsAskedInBaselinesAlone(t *testing.T) {
	n := start(t, smallConfig(t, 4), questiontest.SmallTable(t, 80, 1))
	r := questiontest.Change(voteRound("r", 0), func(q *conclavev1.VoteQuestion) {
		q.Teacher.Vote = conclavev1.TeacherSpec_VOTE_COIN
	})
	for baseline, answered := range map[bool]bool{false: false, true: true} {
		spec := &conclavev1.RunSpec{Name: "r", CoinVotes: baseline}
		question := &received{round: r, digest: func() string { return "x" }}
		m := n.reply(task{run: "r", spec: announced{RunSpec: spec}, question: question})
		if (m.GetVotes() != nil) != answered {
			t.Errorf("in a run that is a baseline: %v; answered with %v", baseline, m)
		}
	}
}
