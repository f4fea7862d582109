package aggregator

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A released round has one question and one answer, whoever asks, also of a server that was
// started anew: the question again gets the stored answer, another question is refused, and
// neither is charged. What nodes get is known by its bytes, so that the same fields in another
// order are another question.
func TestReleasedRoundHasOneQuestion(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	question := roundtest.VoteRound(spec.Name, 0, 4)
	first := student.mustAsk(t, question)
	answer, err := stable(first)
	testkit.Must(t, err)

	changed := func(change func(*conclavev1.Round)) *conclavev1.Round {
		r := proto.Clone(question).(*conclavev1.Round)
		change(r)
		return r
	}
	others := map[string]*conclavev1.Round{
		"more queries":     roundtest.VoteRound(spec.Name, 0, 5),
		"a bit of a query": changed(func(r *conclavev1.Round) { r.Params[40] ^= 1 }),
		"another kind":     changed(func(r *conclavev1.Round) { r.Kind = "embedding" }),
		"another entry":    changed(func(r *conclavev1.Round) { r.Planned = 1 }),
		"a sum":            roundtest.CountRound(spec.Name, 0, 2, 1),
		"nothing":          {Run: spec.Name},
	}
	name := &conclavev1.Round{Run: spec.Name}
	rest := proto.Clone(question).(*conclavev1.Round)
	rest.Run = ""
	reordered := append(testkit.Value(proto.Marshal(rest)), testkit.Value(proto.Marshal(name))...)
	check := func(t *testing.T) {
		again := student.mustAsk(t, question)
		raw, err := stable(again)
		testkit.Must(t, err)
		if !bytes.Equal(raw, answer) {
			t.Errorf("another answer: %v", again)
		}
		_, err = student.askBytes(testkit.Within(t), payload.Key{Run: spec.Name, Number: 0}, reordered, nil)
		roundtest.WantStatus(t, err, codes.FailedPrecondition, "round 0", "another question")
		for name, other := range others {
			t.Run(name, func(t *testing.T) {
				_, err := student.ask(testkit.Within(t), other, nil)
				roundtest.WantStatus(t, err, codes.FailedPrecondition, "round 0", spec.Name, "another question",
					"another name")
			})
		}
		if entries := student.ledger(t, spec.Name); len(entries) != 1 || entries[0].Hash != first.GetLedgerHash() {
			t.Errorf("the ledger has %v", entries)
		}
	}
	t.Run("at once", check)
	if len(node.rounds) != 1 {
		t.Errorf("the node saw %d rounds", len(node.rounds))
	}

	testkit.Must(t, c.stop())
	c.start(Options{})
	student = c.student(t)
	// No node is connected, so that nothing can be answered anew.
	t.Run("after a restart", check)
	_, found := student.open(t, d, nil)
	if found.GetRounds() != 1 || found.GetEpsilonSpent() != first.GetEpsilonSpent() {
		t.Errorf("the run is found as %v", found)
	}
}
