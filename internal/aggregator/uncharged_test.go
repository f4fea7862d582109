package aggregator

import (
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// uncharged is a mechanism whose answers cost nothing.
type uncharged struct{ gnmax.Mechanism }

func (uncharged) Cost(int64, int64) []privacy.Event { return nil }

// A release without a charge is not made, whatever a mechanism says: the ledger
// has no entry for it.
func TestNothingIsReleasedUncharged(t *testing.T) {
	c := newCluster(t, WithMechanism(Options{}, func(m gnmax.Mechanism) gnmax.Mechanism { return uncharged{m} }))
	dataset := c.dataset()
	s := c.student(t)
	spec, _ := s.open(t, dataset, nil)
	c.node(t, hello(dataset, "north", "n", 8), votes(8, alternating))
	if r, err := s.ask(testkit.Within(t), voteRound(spec.GetName(), 0, 5), nil); err == nil {
		t.Errorf("released %v", r)
	}
	if entries := s.ledger(t, spec.GetName()); len(entries) != 0 {
		t.Errorf("the ledger holds %d releases", len(entries))
	}
}
