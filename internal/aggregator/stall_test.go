package aggregator

import (
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// stuck is a stream whose messages go nowhere until it ends.
type stuck struct {
	grpc.ServerStream
	at      byte          // what messages begin with that do so; 0 for all
	sending chan struct{} // a token for each of them that begins
	ended   chan struct{}
}

func (s *stuck) SendMsg(m any) error {
	if s.at != 0 && m.(encoded)[0] != s.at {
		return nil
	}
	s.sending <- struct{}{}
	<-s.ended
	return errors.New("the stream is over")
}

// stuckNode is a node on a stream that is stuck; dropped waits until it is, and ends the stream.
func stuckNode(t *testing.T, at byte) (n *node, s *stuck, dropped func()) {
	n, s = liveNode("s", 8), &stuck{at: at, sending: make(chan struct{}, 1), ended: make(chan struct{})}
	n.stallAfter = 20 * time.Millisecond
	var streams sync.WaitGroup
	n.attach(&streams, func() { _ = n.send(s) })
	return n, s, func() {
		t.Helper()
		select {
		case <-n.dropped:
		case <-time.After(testkit.Patience):
			t.Error("the node stays")
		}
		n.detach()
		close(s.ended)
		streams.Wait()
	}
}

// A node that reads nothing, and answers rounds by what others tell it of them, holds the
// round that is on its way, which it is dropped for, and no others.
func TestAnswersToUnreadRounds(t *testing.T) {
	spec, err := newRunSpec(goodSpec())
	testkit.Must(t, err)
	for _, waits := range []bool{false, true} {
		d := newDataset(coordinator.Dataset{Name: "d"})
		n, s, dropped := stuckNode(t, 0)
		d.join(n)
		for k := range uint64(20) {
			q := &voteQuestion{queries: 2, classes: 2, mechanism: spec.mechanism}
			e := newExecution(&payload{key: roundKey{"r", k}}, k+1, spec, d, q, []encoded{{1}})
			_, err := e.step(d.live(), time.Now())
			testkit.Must(t, err)
			if k == 0 {
				<-s.sending
			}
			kind := n.answers(asking{e.key, e.attempt})
			if want := map[bool]string{true: "", false: foreignKind}[k == 0]; kind != want {
				t.Fatalf("an answer to round %d is %q, want %q", k, kind, want)
			}
			if kind == "" && waits {
				err = e.take(n, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{Waiting: true}}})
				if kindOf(err, "") != waitingKind || !n.ready("r") {
					t.Fatal(err)
				}
				_, err = e.step(d.live(), time.Now()) // asked again, behind what it does not read
				testkit.Must(t, err)
				if kind := n.answers(asking{e.key, e.attempt}); kind != duplicateKind {
					t.Fatalf("an answer to what was not sent again is %q", kind)
				}
			} else if kind == "" {
				testkit.Must(t, e.take(n, votes(8, alternating)(voteRound("r", k, 2))[0]))
			}
			testkit.Must(t, e.withdraw())
		}
		n.mu.Lock()
		for _, left := range n.outbox {
			if !left.withdraw {
				t.Errorf("round %d is over and still to be sent", left.key.number)
			}
		}
		n.mu.Unlock()
		dropped()
	}
}

// The transport takes a small round whole, and what is behind it no more: a withdrawal.
func TestUnreadWithdrawals(t *testing.T) {
	n, _, dropped := stuckNode(t, 2)
	for k := range uint64(3) {
		sendRound([]*node{n}, asking{roundKey{"r", k}, k + 1}, []encoded{{1}})
		if k == 0 {
			testkit.Eventually(t, "the round to be taken", func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				return !n.writing
			})
		}
		n.withdraw(roundKey{"r", k}, encoded{2})
	}
	dropped()
}

// Who leaves a round unread that is over is dropped; who is only slow with one that goes on
// is not, and neither is who reads in time.
func TestUnreadRoundsThatAreOver(t *testing.T) {
	for _, over := range []bool{true, false} {
		n := newNode()
		n.stallAfter = 20 * time.Millisecond
		s := &stuck{sending: make(chan struct{}, 1), ended: make(chan struct{})}
		sent := make(chan error, 1)
		n.attach(new(sync.WaitGroup), func() { sent <- n.send(s) })
		a := asking{roundKey{"r", 0}, 1}
		sendRound([]*node{n}, a, []encoded{{1}})
		<-s.sending
		if over {
			n.withdraw(a.key, encoded{2})
		}
		select {
		case <-n.dropped:
			if !over || !errors.Is(n.reason, errStalled) {
				t.Errorf("over %v: dropped for %v", over, n.reason)
			}
		case <-time.After(map[bool]time.Duration{true: testkit.Patience, false: 100 * time.Millisecond}[over]):
			if over {
				t.Error("the node stays")
			}
		}
		close(s.ended)
		if err := <-sent; err == nil {
			t.Error("sent")
		}
		if n.stall != nil || n.busy {
			t.Error("the node is still watched")
		}
	}
	n := newNode()
	n.stallAfter = 20 * time.Millisecond
	a := asking{roundKey{"r", 0}, 1}
	sendRound([]*node{n}, a, []encoded{{1}})
	if _, ok := n.next(); !ok {
		t.Fatal("nothing to send")
	}
	n.withdraw(a.key, encoded{2})
	n.sent()
	time.Sleep(50 * time.Millisecond)
	select {
	case <-n.dropped:
		t.Error("a node that read in time was dropped")
	default:
	}
}

// Nothing but a round is owed an answer.
func TestNoAnswersToWelcomesAndWithdrawals(t *testing.T) {
	n := liveNode("s", 8)
	n.enqueue(delivery{messages: []encoded{{1}}})
	n.withdraw(roundKey{"r", 0}, encoded{2})
	for range 2 {
		d, ok := n.next()
		if !ok {
			t.Fatal("nothing to send")
		}
		if kind := n.answers(d.asking); kind != foreignKind {
			t.Errorf("an answer to %v is %q, want %q", d.asking, kind, foreignKind)
		}
		n.sent()
	}
}
