package round

import (
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// take counts a node's answer, at most one per round. The error names the node and the problem, never the answer.
func (e *Execution) take(n *peer.Node, answer *conclavev1.WorkRequest) error {
	refusal := answer.GetRefusal()
	if refusal.GetWaiting() {
		return e.wait(n, refusal)
	}
	// Decoding happens outside the lock, so that answers are decoded concurrently, each on its stream's goroutine.
	var counts []int64
	var problem string
	var kind fault.Kind
	if refusal != nil {
		kind, problem = fault.Refusal, "refused: "+fault.Printable(refusal.GetReason())
	} else if c, err := e.question.Read(answer, n.Teachers); err != nil {
		kind, problem = fault.KindOf(err, fault.Malformed), "sent a malformed answer: "+err.Error()
	} else {
		counts = c
	}
	err := e.count(n, counts, kind, problem)
	if q, ok := e.question.(Recycler); ok && counts != nil {
		q.Recycle(counts)
	}
	return err
}

// count adds a decoded answer, or records its problem.
func (e *Execution) count(n *peer.Node, counts []int64, kind fault.Kind, problem string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.participants.of(n.ID)
	s := p.on(n)
	if err := p.mayAnswer(s, e.key.Number); err != nil || !e.open {
		return err
	}
	if problem != "" {
		e.participants.fail(s, problem)
		if kind == fault.Refusal { // the permission was withdrawn or used up
			n.Forget(e.key.Run)
		}
		e.wake()
		return fault.Rejectf(kind, "node %v %s", n.ID, problem)
	}
	addUp(e.counts, counts)
	e.participants.count(p, s)
	e.contributed(n)
	e.schedule.left--
	if e.schedule.due(time.Now()) {
		e.wake()
	}
	return nil
}

// contributed records the session behind an answer, here and in the outer execution if this is one of its passes.
// Callers hold e.mu.
func (e *Execution) contributed(n *peer.Node) {
	e.participants.contribute(n.ID, n.Session)
	if e.outer != nil {
		e.outer.mu.Lock()
		defer e.outer.mu.Unlock()
		e.outer.participants.contribute(n.ID, n.Session)
	}
}

// revoked returns why the sums cannot be released: a contributor's certificate was revoked since. The round is then
// asked again without that node.
func (e *Execution) revoked() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.participants.revoked(); err != nil {
		return fault.Unavailablef("round %d of run %q was asked again: %w", e.key.Number, e.key.Run, err)
	}
	return nil
}

// contributors are the sessions whose answers are in the sums.
func (e *Execution) contributors() map[*peer.Session]peer.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.participants.contributors()
}

// mostCount bounds sums so that noise can be added to them; see package gnmax.
const mostCount = int64(1) << 61

// addUp adds an answer to sums, entry by entry, and saturates at mostCount. Honest nodes never come near it. An
// overflow is not refused: a node could learn from the refusal what the others sent. A saturated sum changes by no
// more than the answer does.
func addUp(sums, answer []int64) {
	for i, v := range answer {
		sums[i] = min(max(sums[i]+v, -mostCount), mostCount) // neither exceeds 2^62
	}
}

// wait records that a node's site must decide about a run. Rounds continue without the node or wait, and it is not
// asked until it is ready.
func (e *Execution) wait(n *peer.Node, r *conclavev1.Refusal) error {
	reason := fault.Printable(r.GetReason())
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.participants.of(n.ID)
	s := p.on(n)
	if err := p.mayAnswer(s, e.key.Number); err != nil {
		return err
	}
	defer e.wake()
	if e.participants.wait(s, reason) {
		return fault.Rejectf(fault.Refusal, "node %v %s", n.ID, s.problem)
	}
	n.Await(e.key.Run, reason)
	return fault.Rejectf(fault.Waiting, "node %v waits: %s", n.ID, reason)
}
