package round

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// inquiring is a round in a dataset with 8 teachers, whose quorum is all of them.
func inquiring(t *testing.T) (*Dataset, *Execution) {
	t.Helper()
	d, e := NewDataset(coordinator.Dataset{Name: "d"}, 1), testExecution(t)
	e.spec.Quorum = 8
	e.dataset = d
	d.register(e)
	return d, e
}

// says makes a node answer a permit as if it had been sent it.
func says(d *Dataset, e *Execution, n *peer.Node, answer *conclavev1.WorkRequest) error {
	answer.Attempt = e.permit
	_, err := d.decide(n, e.key, answer)
	return err
}

func permitted(e *Execution) *conclavev1.WorkRequest {
	return roundtest.Permitted(&conclavev1.Permit{Run: e.key.Run, Round: e.key.Number})
}

// The round is sent to nobody before the sites of a quorum permit its run, because sites that answer are charged.
func TestARoundIsSentOnceAQuorumPermitsIt(t *testing.T) {
	now := time.Now()
	look := func(t *testing.T, e *Execution, live ...*peer.Node) *conclavev1.Progress {
		t.Helper()
		if finished, err := e.step(live, now); finished || err != nil {
			t.Fatalf("finished is %v, error %v", finished, err)
		}
		p, _ := e.watch()
		return p
	}
	// northPermits has two asked nodes, and one of them has permitted the run.
	northPermits := func(t *testing.T) (d *Dataset, e *Execution, north, south *peer.Node) {
		t.Helper()
		d, e = inquiring(t)
		north, south = newNode("north", 4), newNode("south", 4)
		look(t, e, north, south)
		testkit.Must(t, says(d, e, north, permitted(e)))
		return d, e, north, south
	}
	queued := func(t *testing.T, n *peer.Node, want int) {
		t.Helper()
		if n.Queued() != want {
			t.Errorf("%v has %d messages, want %d", n.ID, n.Queued(), want)
		}
	}

	t.Run("all permit it", func(t *testing.T) {
		d, e := inquiring(t)
		north, south := newNode("north", 4), newNode("south", 4)
		for range 2 { // once, however often it is checked
			look(t, e, north, south)
			queued(t, north, 1)
			queued(t, south, 1)
		}
		testkit.Must(t, says(d, e, north, permitted(e)))
		p := look(t, e, north, south)
		queued(t, north, 1)
		if !p.GetWaitingForQuorum() ||
			!slices.Equal(p.GetWaitingFor(), []string{"south/a has not said yet whether it may answer"}) {
			t.Errorf("progress %v", p)
		}
		testkit.Must(t, says(d, e, south, permitted(e)))
		if p := look(t, e, north, south); p.GetWaitingForQuorum() {
			t.Errorf("progress %v", p)
		}
		queued(t, north, 2)
		queued(t, south, 2)
		testkit.Must(t, e.take(north, answerOf(e, north)))
		testkit.Must(t, e.take(south, answerOf(e, south)))
		next := testExecution(t) // the next round is sent at once
		next.key.Number, next.permit = 1, 7
		look(t, next, north, south)
		queued(t, north, 3)
	})
	t.Run("one denies it", func(t *testing.T) {
		d, e, north, south := northPermits(t)
		if err := says(d, e, south, refusal(e.key, false, "denied")); fault.KindOf(err, "") != fault.Refusal {
			t.Errorf("error %v", err)
		}
		_, err := e.step([]*peer.Node{north, south}, now)
		roundtest.WantStatus(t, fault.Status(err), codes.FailedPrecondition, "has 4 of the 8",
			"south/a refused: denied")
		queued(t, north, 1)
		// Its people may have changed their mind when the student returns.
		_, again := inquiring(t)
		again.permit = 7
		look(t, again, north, south)
		queued(t, north, 1)
		queued(t, south, 2)
	})
	t.Run("one has to decide", func(t *testing.T) {
		d, e, north, south := northPermits(t)
		if err := says(d, e, south, refusal(e.key, true, "waits")); fault.KindOf(err, "") != fault.Waiting {
			t.Errorf("error %v", err)
		}
		if p := look(t, e, north, south); !slices.Equal(p.GetWaitingFor(), []string{"south/a waits"}) {
			t.Errorf("progress %v", p)
		}
		queued(t, north, 1)
		if !d.Ready(south, e.key.Run) {
			t.Error("it did not wait")
		}
		look(t, e, north, south)
		queued(t, south, 2)
		testkit.Must(t, says(d, e, south, permitted(e)))
		look(t, e, north, south)
		queued(t, north, 2)
		queued(t, south, 3)
	})
	t.Run("one no longer permits it", func(t *testing.T) {
		d, e, north, south := northPermits(t)
		if !d.Ready(north, e.key.Run) { // for example, its approval has expired
			t.Error("nothing was permitted")
		}
		testkit.Must(t, says(d, e, south, permitted(e)))
		look(t, e, north, south)
		queued(t, north, 2) // it was asked again
		queued(t, south, 1) // nobody was sent the round
		if err := says(d, e, north, refusal(e.key, true, "waits")); fault.KindOf(err, "") != fault.Waiting {
			t.Errorf("error %v", err)
		}
		if p := look(t, e, north, south); !slices.Equal(p.GetWaitingFor(), []string{"north/a waits"}) {
			t.Errorf("progress %v", p)
		}
		queued(t, south, 1)
		d.Ready(north, e.key.Run)
		look(t, e, north, south)
		testkit.Must(t, says(d, e, north, permitted(e)))
		look(t, e, north, south)
		queued(t, north, 4)
		queued(t, south, 2)
	})
	t.Run("one no longer permits a masked run, whose key is in use", func(t *testing.T) {
		north := newNode("north", 4)
		north.Inquire("r", 1)
		north.Decide("r", 1, peer.Permitted, "", &conclavev1.RunKey{Site: "north"})
		if !north.Ready("r") || north.Ready("r") || north.RunKey("r").GetSite() != "north" {
			t.Error("the permission stays, or the key is gone")
		}
		if is, _ := north.Permission("r", 1); is != peer.NotAsked || len(north.Unpermitted()) != 0 {
			t.Errorf("it is %v, unpermitted %v", is, north.Unpermitted())
		}
	})
	t.Run("others are enough", func(t *testing.T) {
		d, e := inquiring(t)
		e.spec.Quorum = 4
		north, south := newNode("north", 4), newNode("south", 4)
		look(t, e, north, south)
		testkit.Must(t, says(d, e, north, permitted(e)))
		look(t, e, north, south)
		queued(t, north, 2)
		queued(t, south, 1)
		testkit.Must(t, says(d, e, south, permitted(e)))
		look(t, e, north, south)
		queued(t, south, 2)
	})
	t.Run("one that permitted it left", func(t *testing.T) {
		d, e := inquiring(t)
		north, south := newNode("north", 4), newNode("south", 4)
		look(t, e, north, south)
		testkit.Must(t, says(d, e, south, permitted(e)))
		testkit.Must(t, says(d, e, north, permitted(e)))
		look(t, e, north)
		queued(t, north, 1)
		back := newNode("south", 4)
		look(t, e, north, back)
		queued(t, north, 1)
		testkit.Must(t, says(d, e, back, permitted(e)))
		look(t, e, north, back)
		queued(t, north, 2)
		queued(t, back, 2)
	})
	t.Run("one that is never done deciding", func(t *testing.T) {
		d, e := inquiring(t)
		north := newNode("north", 8)
		for range maxAgain {
			look(t, e, north)
			_ = says(d, e, north, refusal(e.key, true, "waits"))
			d.Ready(north, e.key.Run)
		}
		_, err := e.step([]*peer.Node{north}, now)
		roundtest.WantStatus(t, fault.Status(err), codes.FailedPrecondition, "reported too often that it waits")
		queued(t, north, maxAgain)
	})
	t.Run("one that permitted it refuses a round", func(t *testing.T) {
		d, e, north, south := northPermits(t)
		testkit.Must(t, says(d, e, south, permitted(e)))
		look(t, e, north, south)
		testkit.Must(t, e.take(north, answerOf(e, north)))
		if err := e.take(south, refusal(e.key, false, "used up")); fault.KindOf(err, "") != fault.Refusal {
			t.Errorf("error %v", err)
		}
		_, again := inquiring(t)
		again.permit = 7
		look(t, again, north, south)
		queued(t, north, 2)
		queued(t, south, 3)
	})
	t.Run("what a run left behind goes with it", func(t *testing.T) {
		d, e := inquiring(t)
		north := newNode("north", 8)
		look(t, e, north)
		peer.RunOver([]*peer.Node{north}, e.key.Run, nil)
		if ours, _ := d.decide(north, e.key, permitted(e)); ours {
			t.Error("the permit of a run that is over counts")
		}
	})
}

// A thousand permissions in a row do not cause a step each.
func TestPermitsAreLookedAtTogether(t *testing.T) {
	const nodes = 1000
	d, e := inquiring(t)
	e.spec.PB.Teachers, e.spec.Quorum = nodes, nodes-100
	live := make([]*peer.Node, nodes)
	for i := range live {
		live[i] = newNode(fmt.Sprint("s", i), 1)
	}
	due := func() bool {
		select {
		case <-e.woken:
			return true
		default:
			return false
		}
	}
	later := time.Now().Add(time.Hour) // so that no time has passed since the last step
	if _, err := e.step(live, later); err != nil {
		t.Fatal(err)
	}
	var steps []int
	for i, n := range live {
		testkit.Must(t, says(d, e, n, permitted(e)))
		if due() {
			steps = append(steps, i+1)
			_, err := e.step(live, later)
			testkit.Must(t, err)
		}
	}
	if !slices.Equal(steps, []int{nodes - 100, nodes}) {
		t.Errorf("steps after %v permits", steps)
	}
	if n := live[nodes-1].Queued(); n != 2 {
		t.Errorf("the last node has %d messages", n)
	}
}
