package requester

import (
	"testing"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// There is no line about the quorum for a run that could begin, or if the aggregator sends none.
func TestWordsAboutAQuorum(t *testing.T) {
	for want, q := range map[string]*conclavev1.Quorum{
		"the run needs 10 teachers, and 9 are connected now; it starts when enough are connected\n": {
			TeachersNeeded: 10, TeachersLive: 9},
		"the run needs 2 member sites, and 0 are connected now; it starts when enough are " +
			"connected\n": {SitesNeeded: 2},
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
