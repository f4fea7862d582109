package round

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func refusal(key payload.Key, waiting bool, reason string) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{
		Run: key.Run, Round: key.Number, Waiting: waiting, Reason: reason,
	}}}
}

func TestNodesThatWaitForTheirSites(t *testing.T) {
	now := time.Now()
	step := func(t *testing.T, e *Execution, wantFinished bool, live ...*peer.Node) *conclavev1.Progress {
		t.Helper()
		finished, err := e.step(live, now)
		testkit.Must(t, err)
		if finished != wantFinished {
			t.Fatalf("finished is %v", finished)
		}
		p, _ := e.watch()
		return p
	}
	waits := func(t *testing.T, e *Execution, n *peer.Node) {
		t.Helper()
		if err := e.take(n, refusal(e.key, true, "waits for approval")); err == nil ||
			fault.KindOf(err, "") != "waiting" {
			t.Fatalf("error %v", err)
		}
	}

	t.Run("with a quorum of others a round ends without them, at once", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 4), liveNode("south", 4)
		step(t, e, false, north, south)
		waits(t, e, north)
		testkit.Must(t, e.take(south, answerOf(e, south)))
		step(t, e, true, north, south)
		if e.took().part != 4 {
			t.Errorf("%d teachers took part", e.took().part)
		}
	})
	t.Run("without one it waits, says for whom, and asks again", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 4), liveNode("south", 3)
		step(t, e, false, north, south)
		waits(t, e, north)
		testkit.Must(t, e.take(south, answerOf(e, south)))
		p := step(t, e, false, north, south)
		if !p.GetWaitingForQuorum() || !slices.Equal(p.GetWaitingFor(), []string{"north/a waits for approval"}) ||
			north.Queued() != 1 {
			t.Errorf("progress %v, %d messages", p, north.Queued())
		}
		if e.take(north, answerOf(e, north)) == nil {
			t.Error("an answer counts that was not asked for again")
		}
		if north.Ready("another") || !north.Ready(e.key.Run) || north.Ready(e.key.Run) {
			t.Error("ready for what did not wait")
		}
		if p := step(t, e, false, north, south); !p.GetWaitingForQuorum() || north.Queued() != 2 {
			t.Errorf("progress %v, %d messages", p, north.Queued())
		}
		if !north.Decide(e.key.Run, e.permit, peer.Permitted, "", nil) {
			t.Error("it was not asked what was decided")
		}
		if p := step(t, e, false, north, south); p.GetWaitingForQuorum() || len(p.GetWaitingFor()) != 0 ||
			north.Queued() != 3 {
			t.Errorf("progress %v, %d messages", p, north.Queued())
		}
		testkit.Must(t, e.take(north, answerOf(e, north)))
		step(t, e, true, north, south)
	})
	t.Run("later rounds of the run are not sent to them", func(t *testing.T) {
		e, north := testExecution(t), liveNode("north", 4)
		step(t, e, false, north)
		waits(t, e, north)
		next := testExecution(t)
		next.key.Number = 1
		if p := step(t, next, false, north); north.Queued() != 1 || len(p.GetWaitingFor()) != 1 {
			t.Errorf("progress %v, %d messages", p, north.Queued())
		}
	})
	t.Run("a refusal of another is no end while they could still answer", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 4), liveNode("south", 4)
		step(t, e, false, north, south)
		waits(t, e, north)
		if e.take(south, refusal(e.key, false, "no")) == nil {
			t.Fatal("counted")
		}
		step(t, e, false, north, south)
		small, other, south := testExecution(t), liveNode("east", 3), liveNode("south", 4)
		step(t, small, false, other, south)
		waits(t, small, other)
		if small.take(south, refusal(small.key, false, "no")) == nil {
			t.Fatal("counted")
		}
		_, err := small.step([]*peer.Node{other, south}, now)
		roundtest.WantStatus(t, fault.Status(err), codes.FailedPrecondition, "south/a refused: no")
	})
	t.Run("surplus teachers are surplus, waiting or not", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 8), liveNode("south", 1)
		step(t, e, false, north)
		waits(t, e, north)
		_, err := e.step([]*peer.Node{north, south}, now)
		roundtest.WantStatus(t, fault.Status(err), codes.FailedPrecondition, "more are connected")
	})
	t.Run("a node that does nothing else is asked so often, and no more", func(t *testing.T) {
		e, north := testExecution(t), liveNode("north", 8)
		for i := range maxAgain {
			step(t, e, false, north)
			waits(t, e, north)
			if !north.Ready(e.key.Run) {
				t.Fatalf("%d: did not wait", i)
			}
			north.Inquire(e.key.Run, e.permit)
			north.Decide(e.key.Run, e.permit, peer.Permitted, "", nil)
		}
		step(t, e, false, north)
		if err := e.take(north, refusal(e.key, true, "again")); err == nil || fault.KindOf(err, "") != "refusal" {
			t.Fatalf("error %v", err)
		}
		if _, err := e.step([]*peer.Node{north}, now); err == nil || north.Queued() != maxAgain+1 {
			t.Errorf("error %v, %d messages", err, north.Queued())
		}
	})
}

// However many nodes wait, a student sees a bounded number.
func TestFewOfManyNodesAreNamed(t *testing.T) {
	var nodes []string
	for range mostNamed {
		nodes = append(nodes, "north/a waits for approval")
	}
	if got := someOf(nodes); !slices.Equal(got, nodes) {
		t.Errorf("%d of %d nodes are named", len(got), len(nodes))
	}
	got := someOf(append(nodes, "b", "c"))
	if len(got) != mostNamed+1 || got[mostNamed] != "and 2 more" {
		t.Errorf("of %d nodes are named: %v", len(nodes)+2, got)
	}
}
