package aggregator

import (
	"sync"

	"google.golang.org/grpc"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// nodeID names a node within its dataset.
type nodeID struct{ site, name string }

func (id nodeID) String() string { return id.site + "/" + id.name }

// delivery is something to send to a node: a round, or its withdrawal.
type delivery struct {
	key      roundKey
	messages []encoded
	withdraw bool
}

// node is one live stream of a node. A node that comes back is a new value.
type node struct {
	id       nodeID
	teachers uint32

	mu     sync.Mutex
	outbox []delivery
	filled chan struct{} // holds one token while the outbox may have something

	dropOnce sync.Once
	dropped  chan struct{}
	reason   error // why it was dropped; written before dropped is closed
}

func newNode() *node {
	return &node{filled: make(chan struct{}, 1), dropped: make(chan struct{})}
}

// sendRound queues a round. It never blocks: a slow node holds up nobody.
func (n *node) sendRound(key roundKey, messages []encoded) {
	n.enqueue(delivery{key: key, messages: messages})
}

// withdraw tells the node that a round needs no answer, or takes the round
// back when it was not sent yet.
func (n *node) withdraw(key roundKey, message encoded) {
	n.mu.Lock()
	for i, d := range n.outbox {
		if d.key == key && !d.withdraw {
			n.outbox = append(n.outbox[:i], n.outbox[i+1:]...)
			n.mu.Unlock()
			return
		}
	}
	n.mu.Unlock()
	n.enqueue(delivery{key: key, messages: []encoded{message}, withdraw: true})
}

func (n *node) enqueue(d delivery) {
	n.mu.Lock()
	n.outbox = append(n.outbox, d)
	n.mu.Unlock()
	select {
	case n.filled <- struct{}{}:
	default:
	}
}

func (n *node) next() (delivery, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.outbox) == 0 {
		n.outbox = nil
		return delivery{}, false
	}
	d := n.outbox[0]
	n.outbox[0] = delivery{}
	n.outbox = n.outbox[1:]
	return d, true
}

// drop ends the stream with a reason for the node; the first reason counts.
func (n *node) drop(reason error) {
	n.dropOnce.Do(func() {
		n.reason = reason
		close(n.dropped)
	})
}

// send writes the outbox to the stream until done is closed or the stream
// breaks.
func (n *node) send(stream grpc.ServerStream, done <-chan struct{}) error {
	for {
		for d, ok := n.next(); ok; d, ok = n.next() {
			for _, m := range d.messages {
				if err := stream.SendMsg(m); err != nil {
					return err
				}
			}
		}
		select {
		case <-n.filled:
		case <-done:
			return nil
		}
	}
}

// receive passes what the node sends to in, until done is closed or the stream
// breaks or ends.
func receive(stream conclavev1.TeacherService_WorkServer, in chan<- *conclavev1.WorkRequest, done <-chan struct{}) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case in <- m:
		case <-done:
			return nil
		}
	}
}
