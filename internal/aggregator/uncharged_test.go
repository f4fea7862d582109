package aggregator

import (
	"sync/atomic"
	"testing"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A round without a charge is not released, whatever use it declares: the ledger has no entry for it.
func TestNothingIsReleasedUncharged(t *testing.T) {
	t.Parallel()
	var undercharge atomic.Pointer[func(privacy.Use) privacy.Use]
	c := newCluster(t, WithUse(Options{}, func(u privacy.Use) privacy.Use { return (*undercharge.Load())(u) }))
	s := c.student(t)
	for name, use := range map[string]func(privacy.Use) privacy.Use{
		"nothing": func(u privacy.Use) privacy.Use { return privacy.Use{Planned: u.Planned} },
		"less than that": func(u privacy.Use) privacy.Use {
			return privacy.Use{Queries: -u.Queries, Answered: -u.Answered}
		},
		"of no entry":     func(u privacy.Use) privacy.Use { u.Planned = 2; return u },
		"of entry -1":     func(u privacy.Use) privacy.Use { u.Planned = -1; return u },
		"not answered":    func(u privacy.Use) privacy.Use { u.Answered = 0; return u },
		"more than asked": func(u privacy.Use) privacy.Use { u.Answered++; return u },
	} {
		t.Run(name, func(t *testing.T) {
			undercharge.Store(&use)
			dataset := c.dataset()
			spec, _ := s.open(t, dataset, nil)
			c.node(t, hello(dataset, "north", "n", 8), roundtest.Votes(8, roundtest.Alternating))
			if r, err := s.ask(testkit.Within(t), roundtest.VoteRound(spec.GetName(), 0, 5), nil); err == nil {
				t.Errorf("released %v", r)
			}
			if entries := s.ledger(t, spec.GetName()); len(entries) != 0 {
				t.Errorf("the ledger holds %d releases", len(entries))
			}
		})
	}
}
