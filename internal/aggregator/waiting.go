package aggregator

import (
	"strings"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxAgain bounds how often one round is sent to a stream whose node let it wait and said
// that it is ready: each time it gets the whole round for two small messages.
const maxAgain = 16

// wait notes that a node's site has to decide about a run: rounds go on without it, or
// wait, and it is not asked until it says that it is ready.
func (e *execution) wait(n *node, r *conclavev1.Refusal) error {
	reason := printable(r.GetReason())
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.mayAnswer(n); err != nil {
		return err
	}
	e.owing--
	defer e.wake()
	if e.again[n]++; e.again[n] > maxAgain {
		e.asked[n] = false
		e.failed[n] = "let the round wait too often: " + reason
		return rejectedf(refusalKind, "node %v %s", n.id, e.failed[n])
	}
	delete(e.asked, n)
	n.await(e.key.run, reason)
	return rejectedf(waitingKind, "node %v waits: %s", n.id, reason)
}

// await and ready begin and end a node's waiting; ready says whether it waited.
func (n *node) await(run, reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waits == nil {
		n.waits = map[string]string{}
	}
	n.waits[run] = reason
}

func (n *node) ready(run string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, waited := n.waits[run]
	delete(n.waits, run)
	return waited
}

// runOver tells the nodes that a run has ended: there is nothing to decide any more for those
// that let it wait.
func (d *dataset) runOver(run string, ledger *conclavev1.LedgerMark) error {
	over, err := encode(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Withdraw{
		Withdraw: &conclavev1.Withdraw{Run: run, Over: true, Ledger: ledger},
	}})
	if err != nil {
		return err
	}
	live := d.live()
	for _, n := range live {
		n.ready(run)
	}
	deliver(live, delivery{messages: []encoded{over}, withdraw: true})
	return nil
}

// waitsFor returns why a node waits with a run.
func (n *node) waitsFor(run string) (reason string, waits bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	reason, waits = n.waits[run]
	return reason, waits
}

// waitingText is how students are told.
func waitingText(n *node, reason string) string {
	return n.id.String() + " " + strings.TrimSpace(reason)
}
