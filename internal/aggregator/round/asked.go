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

// note has the store count a round as asked, from when the first node was sent it. The nodes
// work meanwhile; nothing of them is told before: not how the round stands, and not that it
// ended. The passes of a round are one question, and a round that was released is paid for.
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
	delete(d.reserved, whole) // it stays in the store until it is charged
	whole.noted = true
	return nil
}

// rosterOf are the sites of the nodes that are asked first in a run: it is public, as nothing that depends on
// records was asked before. Of more sites than a roster holds it has the first.
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

// asks is the question as the store knows it.
func (q *inquiry) asks(use privacy.Use) coordinator.Question {
	return coordinator.Question{
		Run: q.key.Run, Round: q.key.Number, Digest: hex.EncodeToString(q.digest[:]), Use: use,
	}
}
