package run

import (
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestAClosedRunHasOnlyItsReleasesLeft(t *testing.T) {
	shares := &plan.Plan{Queries: 100, Rounds: 4, PerRound: 32,
		ClassShares: privacy.Event{Kind: privacy.Laplace, Epsilon: 0.1}}
	alone := &plan.Plan{Queries: 100, Rounds: 4, PerRound: 32} // without a different first round
	for _, c := range []struct {
		p      *plan.Plan
		closed bool
		rounds uint64
		want   int
	}{
		{shares, false, 0, 100}, {shares, false, 5, 100},
		{shares, true, 0, 0}, {shares, true, 1, 0}, {shares, true, 3, 64}, {shares, true, 5, 100},
		{alone, false, 0, 100}, {alone, true, 0, 0}, {alone, true, 1, 32}, {alone, true, 4, 100},
	} {
		opened := &conclavev1.OpenRunResponse{Closed: c.closed, Rounds: c.rounds}
		if got := min(c.p.Queries, c.p.PerRound*roundsLeft(c.p, opened)); got != c.want {
			t.Errorf("closed %v after %d releases: %d labels left, want %d", c.closed, c.rounds, got, c.want)
		}
	}
}
