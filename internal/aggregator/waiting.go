package aggregator

import (
	"strings"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxAgain bounds how often one round is sent to a stream whose node let it wait and said
// that it is ready: each time it gets the whole round for two small messages.
const maxAgain = 16

// wait notes that a node's site has to decide about a run: rounds go on without it, or
// wait, and it is not asked until it says that it is ready.
func (e *execution) wait(n *peer.Node, r *conclavev1.Refusal) error {
	reason := fault.Printable(r.GetReason())
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
		return fault.Rejectf(fault.Refusal, "node %v %s", n.ID, e.failed[n])
	}
	delete(e.asked, n)
	n.Await(e.key.run, reason)
	return fault.Rejectf(fault.Waiting, "node %v waits: %s", n.ID, reason)
}

// runOver tells the nodes that a run has ended: there is nothing to decide for those
// that let it wait.
func (d *dataset) runOver(run string, ledger *conclavev1.LedgerMark) error {
	over, err := peer.Encode(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Withdraw{
		Withdraw: &conclavev1.Withdraw{Run: run, Over: true, Ledger: ledger},
	}})
	if err != nil {
		return err
	}
	peer.RunOver(d.Live(), run, over)
	return nil
}

// waitingText is how students are told.
func waitingText(n *peer.Node, reason string) string {
	return n.ID.String() + " " + strings.TrimSpace(reason)
}
