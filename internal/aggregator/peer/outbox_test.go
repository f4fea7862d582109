package peer

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// liveNode is a node without a stream; its outbox shows what it would receive.
func liveNode() *Node { return NewNode(nil) }

// stuck is a stream that blocks messages until it ends.
type stuck struct {
	at      byte          // first byte of messages that block; 0 blocks all
	sending chan struct{} // a token for each message that starts to block
	ended   chan struct{}
}

func (s *stuck) SendMsg(m any) error {
	if s.at != 0 && m.(Encoded)[0] != s.at {
		return nil
	}
	s.sending <- struct{}{}
	<-s.ended
	return errors.New("the stream is over")
}

func newStuck(at byte) *stuck {
	return &stuck{at: at, sending: make(chan struct{}, 1), ended: make(chan struct{})}
}

func ignore(error) {}

func TestWithdrawTakesBackWhatWasNotSent(t *testing.T) {
	n := liveNode()
	a, b := Round{"r", 0, 1}, Round{"r", 1, 2}
	Ask([]*Node{n}, a, []Encoded{{1}})
	Ask([]*Node{n}, b, []Encoded{{2}})
	n.Withdraw(b, Encoded{3})
	if d, ok := n.next(); !ok || d.round != a {
		t.Fatalf("got %v", d)
	}
	n.Withdraw(a, Encoded{4})
	if d, ok := n.next(); !ok || !d.withdraws || d.messages[0][0] != 4 {
		t.Fatalf("got %v", d)
	}
	if d, ok := n.next(); ok {
		t.Fatalf("left over: %v", d)
	}
}

// Only a bounded number of unread messages waits for a node; then it is disconnected.
func TestWhatWaitsForANodeIsBounded(t *testing.T) {
	n, s := liveNode(), newStuck(0)
	broken := make(chan error, 1)
	n.Attach(s, new(sync.WaitGroup), func(err error) { broken <- err })
	n.Send(Encoded{1})
	testkit.Receive(t, s.sending)
	for i := range maxWaiting {
		if n.Send(Encoded{1}); n.DropReason() != nil {
			t.Fatalf("dropped with %d messages that wait", i+1)
		}
	}
	if n.Queued() != maxWaiting {
		t.Errorf("%d messages wait, want %d", n.Queued(), maxWaiting)
	}
	n.Send(Encoded{1})
	testkit.Receive(t, n.Dropped())
	if !errors.Is(n.DropReason(), ErrStalled) || n.Queued() != 0 {
		t.Errorf("dropped for %v with %d messages that wait", n.DropReason(), n.Queued())
	}
	close(s.ended)
	testkit.Receive(t, broken)
}

// The transport accepts all of a small round, but not the withdrawal behind it.
func TestUnreadWithdrawals(t *testing.T) {
	n, s := liveNode(), newStuck(2)
	n.stallAfter = 20 * time.Millisecond
	var streams sync.WaitGroup
	n.Attach(s, &streams, ignore)
	for k := range uint64(3) {
		Ask([]*Node{n}, Round{"r", k, k + 1}, []Encoded{{1}})
		if k == 0 {
			testkit.Eventually(t, "the round to be taken", func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				return !n.writing
			})
		}
		n.Withdraw(Round{"r", k, k + 1}, Encoded{2})
	}
	testkit.Receive(t, n.Dropped())
	n.Detach()
	close(s.ended)
	streams.Wait()
}

// A node that leaves a finished round unread is dropped. A node that is only slow with an open round stays, and so
// does one that reads in time.
func TestUnreadRoundsThatAreOver(t *testing.T) {
	for _, over := range []bool{true, false} {
		n, s := liveNode(), newStuck(0)
		n.stallAfter = 20 * time.Millisecond
		broken := make(chan error, 1)
		n.Attach(s, new(sync.WaitGroup), func(err error) { broken <- err })
		r := Round{"r", 0, 1}
		Ask([]*Node{n}, r, []Encoded{{1}})
		testkit.Receive(t, s.sending)
		if over {
			n.Withdraw(r, Encoded{2})
			testkit.Receive(t, n.Dropped())
			if !errors.Is(n.DropReason(), ErrStalled) {
				t.Errorf("dropped for %v", n.DropReason())
			}
		} else {
			select {
			case <-n.Dropped():
				t.Errorf("dropped for %v", n.DropReason())
			case <-time.After(100 * time.Millisecond):
			}
		}
		close(s.ended)
		if err := testkit.Receive(t, broken); err == nil {
			t.Error("sent")
		}
		if n.stall != nil || n.busy {
			t.Error("the node is still watched")
		}
	}
	n := liveNode()
	r := Round{"r", 0, 1}
	Ask([]*Node{n}, r, []Encoded{{1}})
	if _, ok := n.next(); !ok {
		t.Fatal("nothing to send")
	}
	n.Withdraw(r, Encoded{2})
	if n.stall == nil {
		t.Error("a node that does not read is not watched")
	}
	if n.sent(); n.stall != nil {
		t.Error("a node that read in time is watched")
	}
}

// A node that reads nothing, but answers rounds that others told it about, keeps only the round being sent in memory,
// and is dropped for that one.
func TestUnreadRoundsAreNotHeld(t *testing.T) {
	n, s := liveNode(), newStuck(0)
	n.stallAfter = 20 * time.Millisecond
	var streams sync.WaitGroup
	n.Attach(s, &streams, ignore)
	for k := range uint64(20) {
		r := Round{"r", k, k + 1}
		Ask([]*Node{n}, r, []Encoded{{1}})
		want := fault.Foreign
		if k == 0 {
			testkit.Receive(t, s.sending)
			want = ""
		}
		if kind := n.Answer(r); kind != want {
			t.Fatalf("an answer to round %d is %q, want %q", k, kind, want)
		}
		if k == 0 { // asked again, behind unread messages
			Ask([]*Node{n}, r, []Encoded{{1}})
			if kind := n.Answer(r); kind != fault.Duplicate {
				t.Fatalf("an answer to what was not sent again is %q", kind)
			}
		}
		n.Withdraw(r, Encoded{2})
	}
	n.mu.Lock()
	for _, left := range n.waiting {
		if !left.withdraws {
			t.Errorf("round %d is over and still to be sent", left.round.Number)
		}
	}
	n.mu.Unlock()
	testkit.Receive(t, n.Dropped())
	n.Detach()
	close(s.ended)
	streams.Wait()
}

// Only rounds expect an answer.
func TestNoAnswersToWelcomesAndWithdrawals(t *testing.T) {
	n := liveNode()
	n.Send(Encoded{1})
	n.Withdraw(Round{"r", 0, 0}, Encoded{2})
	for range 2 {
		d, ok := n.next()
		if !ok {
			t.Fatal("nothing to send")
		}
		for _, r := range []Round{d.round, {"r", 0, 0}, {"r", 0, 1}} {
			if kind := n.Answer(r); kind != fault.Foreign {
				t.Errorf("an answer to %v is %q, want %q", r, kind, fault.Foreign)
			}
		}
		n.sent()
	}
}
