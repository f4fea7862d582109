package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A node is reported in the worst state that applies, and all times are truncated to minutes.
func TestHowANodeStands(t *testing.T) {
	now := time.Date(2026, 11, 26, 18, 30, 45, 0, time.UTC)
	long, short := now.Add(-10*time.Minute), now.Add(-10*time.Second)
	waits := peer.Unpermitted{Run: "w", Is: peer.Undecided, Why: "waits for approval", Since: long}
	denied := peer.Unpermitted{Run: "d", Is: peer.Denied, Why: "denied by the site", Since: long}
	for _, c := range []struct {
		runs  []peer.Unpermitted
		owes  peer.Unanswered
		want  conclavev1.NodeState
		since string
		says  string
	}{
		{nil, peer.Unanswered{}, conclavev1.NodeState_NODE_STATE_READY, "", ""},
		{nil, peer.Unanswered{Run: "r", Since: short}, conclavev1.NodeState_NODE_STATE_ANSWERING,
			"2026-11-26T18:30:00Z",
			"a round of run r"},
		{nil, peer.Unanswered{Run: "r", Since: long}, conclavev1.NodeState_NODE_STATE_STALLED, "2026-11-26T18:20:00Z",
			"a round of run r and has not answered"},
		{[]peer.Unpermitted{denied, waits}, peer.Unanswered{Run: "r", Since: short},
			conclavev1.NodeState_NODE_STATE_WAITS_FOR_APPROVAL, "2026-11-26T18:20:00Z", "run w waits for approval"},
		{[]peer.Unpermitted{denied}, peer.Unanswered{}, conclavev1.NodeState_NODE_STATE_REFUSES, "2026-11-26T18:20:00Z",
			"run d: denied by the site"},
		{[]peer.Unpermitted{{Run: "a", Is: peer.Asked, Since: long}}, peer.Unanswered{},
			conclavev1.NodeState_NODE_STATE_STALLED, "2026-11-26T18:20:00Z",
			"for a permit for run a and has not answered"},
	} {
		st := &conclavev1.NodeStatus{State: conclavev1.NodeState_NODE_STATE_READY}
		judge(st, c.runs, c.owes, now)
		if st.GetState() != c.want || st.GetSince() != c.since || !strings.Contains(st.GetReason(), c.says) {
			t.Errorf("%v %v: %v", c.runs, c.owes, st)
		}
	}
	var many []peer.Unpermitted
	for i := range 100 {
		many = append(many, peer.Unpermitted{Run: fmt.Sprint(i), Is: peer.Undecided, Since: long})
	}
	st := &conclavev1.NodeStatus{}
	judge(st, many, peer.Unanswered{}, now)
	testkit.Same(t, "runs that are named", mostRuns, len(st.GetRuns()))
}

func TestSoftwareOf(t *testing.T) {
	for agent, want := range map[string]string{
		"conclave/0.1.0 grpc-go/1.76.0": "conclave 0.1.0", "grpc-go/1.76.0": "", "": "", "curl/8": "",
		"con\x00clave/1 grpc-go/1": "conclave 1",
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("user-agent", agent))
		testkit.Same(t, agent, want, softwareOf(ctx))
	}
}
