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

// A released round has one question and one answer, whoever asks, in whatever
// bytes, also of a server that was started anew: the question again gets the
// stored answer, another question is refused, and neither is charged.
func TestReleasedRoundHasOneQuestion(t *testing.T) {
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	question := roundtest.VoteRound(spec.Name, 0, 4)
	first := student.mustAsk(t, question)
	answer, err := stable(first)
	testkit.Must(t, err)

	changed := func(change func(*conclavev1.VoteQuestion)) *conclavev1.Round {
		r := proto.Clone(question).(*conclavev1.Round)
		change(r.GetVote())
		return r
	}
	others := map[string]*conclavev1.Round{
		"more queries":       roundtest.VoteRound(spec.Name, 0, 5),
		"a bit of a query":   changed(func(q *conclavev1.VoteQuestion) { q.Queries.Data[5] ^= 1 }),
		"a class of a query": changed(func(q *conclavev1.VoteQuestion) { q.QueryClasses[3] = 1 }),
		"another seed":       changed(func(q *conclavev1.VoteQuestion) { q.Teacher.Seed++ }),
		"a sum":              roundtest.CountRound(spec.Name, 0, 2, 1),
		"nothing":            {Run: spec.Name},
	}
	check := func(t *testing.T) {
		for name, ask := range map[string]func() (*conclavev1.Release, error){
			"same bytes": func() (*conclavev1.Release, error) { return student.ask(testkit.Within(t), question, nil) },
			"other bytes": func() (*conclavev1.Release, error) {
				return student.askBytes(testkit.Within(t), payload.Key{Run: spec.Name, Number: 0},
					roundtest.OtherBytes(t, question), nil)
			},
		} {
			again, err := ask()
			testkit.Must(t, err)
			raw, err := stable(again)
			testkit.Must(t, err)
			if !bytes.Equal(raw, answer) {
				t.Errorf("%s: another answer: %v", name, again)
			}
		}
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
