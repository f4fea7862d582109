package requester

import (
	"testing"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// There is no line about the quorum for a run that could begin, or if the aggregator sends none.
func TestWordsAboutAQuorum(t *testing.T) {
	for want, q := range map[string]*conclavev1.Quorum{
		"of the 10 teachers that it needs 9 are connected now: it cannot begin before more are\n": {
			TeachersNeeded: 10, TeachersLive: 9},
		"of the 2 member sites that it needs 0 are connected now: it cannot begin before more are\n": {SitesNeeded: 2},
	} {
		if got := QuorumText(q); got != want {
			t.Errorf("%v: %q", q, got)
		}
	}
	for _, q := range []*conclavev1.Quorum{nil, {TeachersNeeded: 3, TeachersLive: 3}, {SitesNeeded: 2, SitesLive: 4}} {
		if got := QuorumText(q); got != "" {
			t.Errorf("%v: %q", q, got)
		}
	}
}
