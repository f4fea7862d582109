package aggregator

import (
	"strings"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// wait says that a node's site has to decide about a run: rounds go on without it, or
// wait, and it is not asked until it says that it is ready.
func (e *execution) wait(n *peer.Node, r *conclavev1.Refusal) error {
	reason := fault.Printable(r.GetReason())
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.participants.of(n.ID)
	s := p.on(n)
	if err := p.mayAnswer(s, e.key.number); err != nil {
		return err
	}
	defer e.wake()
	if e.participants.wait(s, reason) {
		return fault.Rejectf(fault.Refusal, "node %v %s", n.ID, s.problem)
	}
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
