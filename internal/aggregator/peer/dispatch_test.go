package peer

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// reading is a stream that takes every message.
type reading struct{ took chan any }

func (r *reading) SendMsg(m any) error {
	r.took <- m
	return nil
}

// Nodes that do not read delay no others, however many of them come first.
func TestDispatchPassesNodesThatDoNotRead(t *testing.T) {
	const readers = 5
	for _, stuckNodes := range []int{0, 1, runtime.GOMAXPROCS(0), 4 * runtime.GOMAXPROCS(0)} {
		var streams sync.WaitGroup
		ended, took := make(chan struct{}), make(chan any, 2*readers)
		var nodes []*Node
		for range stuckNodes {
			n := liveNode()
			s := &stuck{sending: make(chan struct{}, 1), ended: ended}
			n.Attach(s, &streams, ignore)
			nodes = append(nodes, n)
		}
		for range readers {
			n := liveNode()
			n.Attach(&reading{took: took}, &streams, ignore)
			nodes = append(nodes, n)
		}
		Ask(nodes, Round{"r", 0, 1}, []Encoded{{1}})
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
			if n.busy || len(n.waiting) > 0 {
				t.Errorf("a node is left with %d deliveries, busy %v", len(n.waiting), n.busy)
			}
		}
	}
}
