package round

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// newNode is a node without a stream; its outbox shows what would be sent.
func newNode(site string, teachers uint32) *peer.Node {
	n := peer.NewNode(nil)
	n.ID, n.Teachers = peer.ID{Site: site, Name: "a"}, teachers
	return n
}

// liveNode is a node whose site permits run r.
func liveNode(site string, teachers uint32) *peer.Node {
	n := newNode(site, teachers)
	n.Inquire("r", 1)
	n.Decide("r", 1, peer.Permitted, "", nil)
	return n
}

// adding is a question whose answers are sums of length numbers, from nodes with a bounded number of teachers.
type adding struct {
	length int
	most   uint32
}

func (q *adding) Length() int    { return q.length }
func (q *adding) Largest() int   { return 0 }
func (q *adding) Queries() int64 { return 1 }

func (q *adding) Fits(teachers uint32) error {
	if teachers > q.most {
		return fmt.Errorf("%d teachers are too many", teachers)
	}
	return nil
}

func (q *adding) Read(answer *conclavev1.WorkRequest, _ uint32) ([]int64, error) {
	if n := len(answer.GetSum().GetValues()); n != q.length {
		return nil, fmt.Errorf("%d numbers", n)
	}
	return answer.GetSum().GetValues(), nil
}

func (q *adding) Answer(*gnmax.Source, []int64, *conclavev1.Release) (int64, error) { return 1, nil }

func testExecution(t *testing.T) *Execution {
	t.Helper()
	run, err := spec.New(roundtest.Spec()) // 8 teachers, a quorum of 4, 5 s
	testkit.Must(t, err)
	return newExecution(inquiry{
		key: payload.Key{Run: "r"}, permit: 1, attempt: 2, spec: run, question: &adding{2, 100},
		parts: []peer.Encoded{{1}},
	}, nil)
}

func answerOf(e *Execution, n *peer.Node) *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
		Run: e.key.Run, Round: e.key.Number, Values: []int64{1, int64(n.Teachers)},
	}}}
}

// A round must not look idle between its start and its student's attachment. Otherwise a stopping server gives it up,
// and a student that returns with another question is refused.
func TestARoundIsWaitedForFromTheStart(t *testing.T) {
	e, north := testExecution(t), liveNode("north", 4)
	if _, err := e.step([]*peer.Node{north}, time.Now().Add(2*abandonAfter)); err != nil {
		t.Fatal(err)
	}
	if e.idle() || e.stalled() {
		t.Errorf("idle %v, stalled %v, with a node that has the round", e.idle(), e.stalled())
	}
	select {
	case <-e.abandoned.Done():
		t.Error("it was given up")
	default:
	}
	if e.Leave(); !e.idle() || !e.stalled() {
		t.Errorf("idle %v, stalled %v, when nobody waits", e.idle(), e.stalled())
	}
}

func TestStep(t *testing.T) {
	now := time.Now()
	step := func(t *testing.T, e *Execution, at time.Duration, wantFinished bool,
		live ...*peer.Node) *conclavev1.Progress {
		t.Helper()
		finished, err := e.step(live, now.Add(at))
		testkit.Must(t, err)
		if finished != wantFinished {
			t.Fatalf("finished is %v", finished)
		}
		p, _ := e.watch()
		return p
	}

	t.Run("nobody is asked below the quorum", func(t *testing.T) {
		e, n := testExecution(t), liveNode("north", 3)
		if p := step(t, e, 0, false, n); !p.GetWaitingForQuorum() || p.GetTeachersLive() != 3 || n.Queued() != 0 {
			t.Errorf("progress %v, %d messages", p, n.Queued())
		}
	})
	t.Run("a passed deadline waits for the quorum and no longer", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 3), liveNode("south", 3)
		step(t, e, 0, false, north, south)
		testkit.Must(t, e.take(north, answerOf(e, north)))
		step(t, e, time.Second, false, north, south)
		if p := step(t, e, time.Minute, false, north); !p.GetWaitingForQuorum() || e.participants.answered != 3 {
			t.Errorf("progress %v", p)
		}
		back, slow := liveNode("south", 3), liveNode("east", 1)
		step(t, e, time.Minute, false, north, back, slow)
		testkit.Must(t, e.take(back, answerOf(e, back)))
		step(t, e, time.Minute, true, north, back, slow)
		if e.took().part != 7 { // whether one answered in time is not revealed
			t.Errorf("%d teachers took part", e.participants.answered)
		}
	})
	t.Run("an answer counts although its node left", func(t *testing.T) {
		e, n := testExecution(t), liveNode("north", 4)
		step(t, e, 0, false, n)
		testkit.Must(t, e.take(n, answerOf(e, n)))
		step(t, e, 0, true)
	})
	t.Run("a node that answered and rejoined is not asked again", func(t *testing.T) {
		e, n, other := testExecution(t), liveNode("north", 4), liveNode("south", 4)
		step(t, e, 0, false, n, other)
		testkit.Must(t, e.take(n, answerOf(e, n)))
		again := liveNode("north", 4)
		step(t, e, 0, false, again, other)
		if again.Queued() != 0 || e.take(again, answerOf(e, again)) == nil {
			t.Error("asked or counted twice")
		}
	})
	t.Run("of a node that was asked on two streams one answer counts", func(t *testing.T) {
		e, first, other := testExecution(t), liveNode("north", 4), liveNode("south", 4)
		step(t, e, 0, false, first, other)
		again := liveNode("north", 4)
		step(t, e, 0, false, again, other)
		testkit.Must(t, e.take(first, answerOf(e, first))) // it was in flight
		kind := fault.KindOf(e.take(again, answerOf(e, again)), "")
		if kind != fault.Late || e.participants.answered != 4 {
			t.Errorf("the second is %q, %d teachers took part", kind, e.participants.answered)
		}
		if kind := fault.KindOf(e.take(first, answerOf(e, first)), ""); kind != fault.Duplicate {
			t.Errorf("the first once more is %q", kind)
		}
		testkit.Must(t, e.withdraw())
		if again.Queued() != 0 || other.Queued() != 0 || first.Queued() != 1 {
			t.Error("a round that is over is still to be sent to a stream that did not answer")
		}
	})
	t.Run("an answer that was not asked for is rejected", func(t *testing.T) {
		e, n := testExecution(t), liveNode("north", 3)
		step(t, e, 0, false, n)
		if e.take(n, answerOf(e, n)) == nil || e.participants.answered != 0 {
			t.Error("counted")
		}
	})
	t.Run("a turned down answer gets no second try on its stream", func(t *testing.T) {
		e, n := testExecution(t), liveNode("north", 4)
		step(t, e, 0, false, n)
		refusal := &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{}}}
		if e.take(n, refusal) == nil || e.take(n, answerOf(e, n)) == nil {
			t.Fatal("counted")
		}
		_, err := e.step([]*peer.Node{n}, now)
		roundtest.WantStatus(t, fault.Status(err), codes.FailedPrecondition, "north/a", "no reason given")
		back := liveNode("north", 4)
		step(t, e, 0, false, back)
		testkit.Must(t, e.take(back, answerOf(e, back)))
		step(t, e, 0, true, back)
	})
	t.Run("late answers change nothing", func(t *testing.T) {
		e, north, south := testExecution(t), liveNode("north", 4), liveNode("south", 4)
		step(t, e, 0, false, north, south)
		testkit.Must(t, e.take(north, answerOf(e, north)))
		step(t, e, time.Minute, true, north, south)
		testkit.Must(t, e.take(south, answerOf(e, south)))
		if e.participants.answered != 4 {
			t.Error("a late answer was counted")
		}
	})
	t.Run("a round nobody waits for is given up after a while", func(t *testing.T) {
		e, n := testExecution(t), liveNode("north", 4)
		e.Leave()
		e.idleSince = now
		step(t, e, abandonAfter-time.Second, false, n)
		select {
		case <-e.abandoned.Done():
			t.Error("too early")
		default:
		}
		step(t, e, abandonAfter+time.Second, false, n)
		testkit.Receive(t, e.abandoned.Done())
	})
	t.Run("answers that do not fit a message", func(t *testing.T) {
		e := testExecution(t)
		e.spec.PB.Teachers = 1 << 20
		_, err := e.step([]*peer.Node{liveNode("north", 1000)}, now)
		roundtest.WantStatus(t, fault.Status(err), codes.InvalidArgument, "north/a", "too many")
	})
}

// Whatever the others sent, an answer is added, and a sum that would overflow saturates. A refusal would tell two
// nodes that send nearly the maximum what the third one sent.
func TestSumsAreCutAndNotRefused(t *testing.T) {
	const limit = int64(1) << 61
	for _, c := range []struct{ sum, add, want int64 }{
		{0, 1 << 53, 1 << 53}, {limit - 1<<53, 1 << 53, limit}, {limit - 1<<53 + 1, 1 << 53, limit}, {limit, 0, limit},
		{limit, 1, limit}, {-limit, -limit, -limit}, {limit, -limit, 0}, {1 - limit, -7, -limit},
	} {
		sum := []int64{c.sum}
		if addUp(sum, []int64{c.add}); sum[0] != c.want {
			t.Errorf("%d + %d: got %d, want %d", c.sum, c.add, sum[0], c.want)
		}
	}
}
