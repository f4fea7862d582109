package aggregator

import (
	"fmt"
	"time"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// take counts the answer of a node, at most one per round. The error names the
// node and what is wrong, never what was answered.
func (e *execution) take(n *node, answer *conclavev1.WorkRequest) error {
	refusal := answer.GetRefusal()
	if refusal.GetWaiting() {
		return e.wait(n, refusal)
	}
	// Unpacked outside the lock: answers of several nodes at once, each on
	// its own stream's goroutine.
	var counts []int64
	var problem, kind string
	if refusal != nil {
		kind, problem = refusalKind, "refused: "+printable(refusal.GetReason())
	} else if c, err := e.question.read(answer, n.teachers); err != nil {
		kind, problem = kindOf(err, malformedKind), "sent a malformed answer: "+err.Error()
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
func (e *execution) count(n *node, counts []int64, kind, problem string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.mayAnswer(n); err != nil || !e.open {
		return err
	}
	if problem == "" {
		if i := overflows(e.counts, counts); i >= 0 {
			kind, problem = overflowKind, fmt.Sprintf("sent an answer that is too large to add up (entry %d)", i)
		}
	}
	e.asked[n] = false
	e.owing--
	if problem != "" {
		e.failed[n] = problem
		e.wake()
		return rejectedf(kind, "node %v %s", n.id, problem)
	}
	for i, c := range counts {
		e.counts[i] += c
	}
	e.counted[n.id] = n.teachers
	e.heard(n)
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
func (e *execution) mayAnswer(n *node) error {
	owes, asked := e.asked[n]
	_, counted := e.counted[n.id]
	_, failed := e.failed[n]
	switch {
	case !asked:
		return rejectedf(unaskedKind, "node %v answered round %d, which it was not asked", n.id, e.key.number)
	case failed:
		return rejectedf(duplicateKind, "node %v answered round %d again after its answer was turned down", n.id, e.key.number)
	case !owes:
		return rejectedf(duplicateKind, "node %v answered round %d twice; the first answer counts", n.id, e.key.number)
	case counted:
		// It was asked on two streams, and what it had sent down the first one came in late.
		return rejectedf(lateKind, "node %v answered round %d on an earlier stream as well; the first answer counts", n.id, e.key.number)
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
