package round

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// note records in the store that a round was asked, from when the first node was sent it. Until then nobody learns
// how the round stands or that it ended. All passes of a round are one question, and a released round is already
// paid.
func (rs *Rounds) note(e *Execution) error {
	whole := e
	if e.outer != nil {
		whole = e.outer
	}
	if len(e.asked) == 0 || whole.noted || e.released != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(rs.Lifetime.Leading(), chargeTimeout)
	defer cancel()
	d := e.dataset
	d.admission.Lock()
	defer d.admission.Unlock()
	question := whole.asks(whole.worst())
	if e.key.Number == 0 {
		question.Roster = rosterOf(e.asked)
	}
	if err := rs.Store.Ask(ctx, rs.Lead, question); err != nil {
		if rs.Lifetime.Leading().Err() != nil {
			err = context.Cause(rs.Lifetime.Leading())
		}
		return fmt.Errorf("ask round %d of run %q: %w", e.key.Number, e.key.Run, err)
	}
	delete(d.reserved, whole) // the store keeps it until it is charged
	whole.noted = true
	return nil
}

// rosterOf lists the sites of the nodes that a run asks first. The list is public: nothing that depends on records
// was asked before. It is truncated to what a roster may hold.
func rosterOf(asked []*peer.Node) (roster []ledger.Site) {
	bySite := map[string]ledger.Site{}
	for _, n := range asked {
		s := bySite[n.ID.Site]
		bySite[n.ID.Site] = ledger.Site{Site: n.ID.Site, Nodes: s.Nodes + 1, Teachers: s.Teachers + n.Teachers}
	}
	for _, name := range slices.Sorted(maps.Keys(bySite)) {
		roster = append(roster, bySite[name])
	}
	return roster[:min(len(roster), ledger.MaxSites)]
}

// asks is the question in the store's terms.
func (q *inquiry) asks(use privacy.Use) coordinator.Question {
	return coordinator.Question{
		Run: q.key.Run, Round: q.key.Number, Digest: hex.EncodeToString(q.digest[:]), Use: use,
	}
}
