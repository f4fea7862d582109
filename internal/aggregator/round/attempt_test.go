package round

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/masking"
)

// Members that did not open their answers in time are left out of the next attempt where the others are a quorum, and
// asked again where they are not: else a server that was held up itself would end the run.
func TestLateMembersAreAskedAgainWhereTheyAreNeeded(t *testing.T) {
	for name, c := range map[string]struct{ late, spoiled, out int }{
		"one of four": {1, 0, 1}, "two of four": {2, 0, 2}, "three": {3, 0, 0}, "all": {4, 0, 0}, "a liar " +
			"too": {2, 1, 1},
		"a liar and one late": {1, 1, 2},
	} {
		a := &attempt{owes: map[*peer.Node]bool{}, due: seeds, terms: &masking.Terms{Group: masking.Group{Quorum: 2}}}
		for i := range 4 {
			n := newNode(string(rune('a'+i)), 1)
			a.nodes = append(a.nodes, n)
			if i < c.late {
				a.owes[n] = true
			} else if i < c.late+c.spoiled {
				a.spoiled = append(a.spoiled, n)
			}
		}
		if done, err := a.step(a.nodes, true); done || err == nil {
			t.Errorf("%s: the attempt opens", name)
		}
		if got := len(a.leftOut()); got != c.out {
			t.Errorf("%s: %d are left out, want %d", name, got, c.out)
		}
	}
}
