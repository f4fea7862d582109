package round

import (
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Trial is an execution for tests with the questions of package shape.
type Trial struct{ *Execution }

// NewTrial starts a round of run r with this number, attempt 1.
func NewTrial(number uint64, run *spec.Spec, q Question) Trial {
	return Trial{newExecution(inquiry{
		key: payload.Key{Run: "r", Number: number}, permit: 2, attempt: 1, spec: run, question: q,
		parts: []peer.Encoded{{1}},
	}, nil)}
}

// Step compares the live nodes with the known ones and asks those that are due.
func (t Trial) Step(live []*peer.Node) (finished bool, err error) { return t.step(live, time.Now()) }

// Due reports whether a step was requested.
func (t Trial) Due() bool {
	select {
	case <-t.woken:
		return true
	default:
		return false
	}
}

// Ask and Forget record that a node was sent the round, or was not.
func (t Trial) Ask(n *peer.Node) { t.participants.ask(t.participants.of(n.ID).on(n)) }

func (t Trial) Forget(n *peer.Node) { t.participants.of(n.ID).on(n).state = unsent }

// Take takes an answer.
func (t Trial) Take(n *peer.Node, answer *conclavev1.WorkRequest) error { return t.take(n, answer) }

// Counts are the sums.
func (t Trial) Counts() []int64 { return t.counts }
