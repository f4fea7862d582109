package aggregator

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// reading is a stream that takes every message.
type reading struct {
	grpc.ServerStream
	took chan any
}

func (r *reading) SendMsg(m any) error {
	r.took <- m
	return nil
}

// Nodes that do not read hold up no others, however many of them come first.
func TestDispatchPassesNodesThatDoNotRead(t *testing.T) {
	const readers = 5
	for _, stuckNodes := range []int{0, 1, runtime.GOMAXPROCS(0), 4 * runtime.GOMAXPROCS(0)} {
		var streams sync.WaitGroup
		ended, took := make(chan struct{}), make(chan any, 2*readers)
		var nodes []*node
		for range stuckNodes {
			n := newNode()
			s := &stuck{sending: make(chan struct{}, 1), ended: ended}
			n.attach(&streams, func() { _ = n.send(s) })
			nodes = append(nodes, n)
		}
		for range readers {
			n := newNode()
			n.attach(&streams, func() { _ = n.send(&reading{took: took}) })
			nodes = append(nodes, n)
		}
		sendRound(nodes, asking{roundKey{"r", 0}, 1}, []encoded{{1}})
		for range readers {
			select {
			case <-took:
			case <-time.After(testkit.Patience):
				t.Fatalf("%d nodes that do not read hold up others", stuckNodes)
			}
		}
		close(ended)
		streams.Wait()
		if len(took) > 0 {
			t.Errorf("%d messages too many", len(took))
		}
		for _, n := range nodes {
			if n.busy || len(n.outbox) > 0 {
				t.Errorf("a node is left with %d deliveries, busy %v", len(n.outbox), n.busy)
			}
		}
	}
}
