package aggregator

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A student gives up a round and asks another question in its place. A node's late answer to the first question does
// not count for the second: its votes are for other records. Laplace noise with lambda 20 changes a count by 3 or
// more with a chance below 1e-25.
func TestLateAnswersDoNotCountForTheNextQuestion(t *testing.T) {
	c := shared(t)
	student := c.student(t)
	vote := func(class int) roundtest.Answer { return roundtest.Votes(8, func(_, _ int) int { return class }) }
	for name, late := range map[string]roundtest.Answer{
		"an answer": vote(0),
		"a refusal": func(r *conclavev1.Round) []*conclavev1.WorkRequest {
			return []*conclavev1.WorkRequest{{Message: &conclavev1.WorkRequest_Refusal{
				Refusal: &conclavev1.Refusal{Run: r.GetRun(), Round: r.GetNumber(), Reason: "no"}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.dataset()
			spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) {
				s.Epsilon = 90 // for two questions: the abandoned one is charged, too
				roundtest.Trains(roundtest.Histograms(roundtest.Planned(runspec.Votes, roundtest.LNMax(20), 0)))(s)
			})
			node := c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
			first := roundtest.VoteRound(spec.Name, 0, 1)
			second := proto.Clone(first).(*conclavev1.Round)
			second.Params = []byte("other records")

			// The student asks and leaves.
			asking, cancel := context.WithCancel(testkit.Within(t))
			gone := make(chan error, 1)
			go func() {
				_, err := student.ask(asking, first, nil)
				gone <- err
			}()
			testkit.Receive(t, node.rounds)
			firstAttempt := testkit.Receive(t, node.attempts)
			cancel()
			roundtest.WantStatus(t, testkit.Receive(t, gone), codes.Canceled)
			testkit.Eventually(t, "a round that nobody waits for", func() bool {
				return c.server.rounds.Waiting(t.Context(), spec.Name) == 0
			})

			// It returns with another question while the node still works on the first.
			released := releasing(t, student, second)
			select {
			case <-node.rounds:
			case <-released:
				t.Fatal("the second question was not sent")
			case <-time.After(testkit.Patience):
				t.Fatal("the second question was neither sent nor refused")
			}
			secondAttempt := testkit.Receive(t, node.attempts)
			if firstAttempt == secondAttempt || firstAttempt == 0 {
				t.Errorf("attempts %d and %d", firstAttempt, secondAttempt)
			}
			send := func(answer roundtest.Answer, to *conclavev1.Round, attempt uint64) {
				for _, reply := range answer(to) {
					reply.Attempt = attempt
					mustSend(t, node.stream, reply)
				}
			}
			send(late, first, firstAttempt)
			send(vote(0), first, 0) // a node that brings nothing back
			send(vote(1), second, secondAttempt)
			r := testkit.Receive(t, released)
			if v := r.GetVotes(); r.GetTeachers() != 8 || v.GetLabels()[0] != 1 || v.GetHistogram()[0] > 2 ||
				v.GetHistogram()[1] < 6 {
				t.Errorf("the release is %v; want the 8 votes of the second question", r)
			}
		})
	}
}
