package aggregator

import (
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// stuck is a stream whose messages go nowhere until it ends.
type stuck struct {
	grpc.ServerStream
	sending chan struct{} // a token for each message that begins
	ended   chan struct{}
}

func (s *stuck) SendMsg(any) error {
	s.sending <- struct{}{}
	<-s.ended
	return errors.New("the stream is over")
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
		case <-time.After(map[bool]time.Duration{true: patience, false: 100 * time.Millisecond}[over]):
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
