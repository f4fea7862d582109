package node

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Every reply, also a refusal, brings back the attempt that it answers.
func TestRepliesBringBackTheAttempt(t *testing.T) {
	n := smallNode(t, 2)
	foreign := questiontest.Change(voteRound("r", 2), func(q *conclavev1.VoteQuestion) { q.QueryClasses = nil })
	for attempt, r := range map[uint64]*conclavev1.Round{
		7: countRound("r", 0, 2, 1), 9: voteRound("r", 1), 11: foreign,
	} {
		in, parts := newInbox(), assembly{}
		for _, p := range partsOf(t, r, 300) {
			testkit.Must(t, n.dispatch(&conclavev1.WorkResponse{Attempt: attempt,
				Message: &conclavev1.WorkResponse_Part{Part: p}}, &parts, in))
		}
		todo, _ := in.take()
		if got := n.reply(todo); got.Attempt != attempt {
			t.Errorf("round %d, asked as attempt %d, was answered as %d: %v", r.Number, attempt, got.Attempt, got)
		}
	}
}
