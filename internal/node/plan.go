package node

import (
	"fmt"

	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// asks is what a site decides by, nil for a task that asks nothing.
func (t task) asks() *conclavev1.Permit {
	if t.question != nil {
		return t.question.toBePermitted()
	}
	return t.permit // it has everything that a decision needs
}

// able returns nil, or why the node cannot answer what is left of a run's plan. So a run that would end at one of its
// stages is refused before anything is paid for. Plans are in the order in which they are asked: entries before that
// of the task are over. Only the room on the disk depends on records, and its error says nothing of them outside.
func (n *Node) able(t task) error {
	asks := t.asks()
	plan, err := runspec.Plan(t.spec.RunSpec)
	if asks == nil || err != nil || int(asks.Planned) >= len(plan) {
		return nil // the question itself is checked, too
	}
	divides := false
	for _, p := range plan[asks.Planned:] {
		divides = divides || n.kinds[p.Kind].Divides
		switch err := n.kinds.Check(n.site.Public, p.Kind); {
		case err == nil:
		case p.Stage == "":
			return fmt.Errorf("the run's questions of kind %s would be refused: %w", p.Kind, err)
		default: // short, because an aggregator cuts long reasons
			return fmt.Errorf("the stage %s would be refused later (leave it out): %w", p.Stage, err)
		}
	}
	if divides && !n.divides.Load() {
		return n.site.Room()
	}
	return nil
}
