package aggregator

import (
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// take counts the answer of a node, at most one per round. The error names the
// node and what is wrong, never what was answered.
func (e *execution) take(n *peer.Node, answer *conclavev1.WorkRequest) error {
	refusal := answer.GetRefusal()
	if refusal.GetWaiting() {
		return e.wait(n, refusal)
	}
	// Unpacked outside the lock: answers of several nodes at once, each on
	// its own stream's goroutine.
	var counts []int64
	var problem string
	var kind fault.Kind
	if refusal != nil {
		kind, problem = fault.Refusal, "refused: "+fault.Printable(refusal.GetReason())
	} else if c, err := e.question.read(answer, n.Teachers); err != nil {
		kind, problem = fault.KindOf(err, fault.Malformed), "sent a malformed answer: "+err.Error()
	} else {
		counts = c
	}
	err := e.count(n, counts, kind, problem)
	if q, ok := e.question.(*voteQuestion); ok && counts != nil {
		q.reuse(counts)
	}
	return err
}

// count adds up what was read of an answer, or notes its problem.
func (e *execution) count(n *peer.Node, counts []int64, kind fault.Kind, problem string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.mayAnswer(n); err != nil || !e.open {
		return err
	}
	if problem == "" {
		if i := overflows(e.counts, counts); i >= 0 {
			kind, problem = fault.Overflow, fmt.Sprintf("sent an answer that is too large to add up (entry %d)", i)
		}
	}
	e.asked[n] = false
	e.owing--
	if problem != "" {
		e.failed[n] = problem
		e.wake()
		return fault.Rejectf(kind, "node %v %s", n.ID, problem)
	}
	for i, c := range counts {
		e.counts[i] += c
	}
	e.counted[n.ID] = n.Teachers
	e.contributed(n)
	// A step where it may end the round. Nodes that left are among the pending until the
	// step that their leave is followed by; with too few pending there is a step too many.
	e.pending--
	now := time.Now()
	if e.pending <= 0 || !e.deadline.IsZero() && !now.Before(e.deadline) || now.Sub(e.stepped) >= stepEvery {
		e.wake()
	}
	return nil
}

// mayAnswer is nil, or why an answer does not count whatever it holds. Callers hold e.mu.
func (e *execution) mayAnswer(n *peer.Node) error {
	owes, asked := e.asked[n]
	_, counted := e.counted[n.ID]
	_, failed := e.failed[n]
	switch {
	case !asked:
		return fault.Rejectf(fault.Unasked, "node %v answered round %d, which it was not asked", n.ID, e.key.number)
	case failed:
		return fault.Rejectf(fault.Duplicate, "node %v answered round %d again after its answer was turned down", n.ID, e.key.number)
	case !owes:
		return fault.Rejectf(fault.Duplicate, "node %v answered round %d twice; the first answer counts", n.ID, e.key.number)
	case counted:
		// It was asked on two streams, and what it had sent down the first one came in late.
		return fault.Rejectf(fault.Late, "node %v answered round %d on an earlier stream as well; the first answer counts", n.ID, e.key.number)
	}
	return nil
}

// overflows returns the first entry whose sum would leave the range in which
// noise can be added safely, -1 when there is none.
func overflows(sum, add []int64) int {
	const limit = int64(1) << 61 // as package gnmax has it
	for i, v := range add {
		if v > limit-sum[i] || v < -limit-sum[i] {
			return i
		}
	}
	return -1
}
