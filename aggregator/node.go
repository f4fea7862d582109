package aggregator

import (
	"sync"

	"google.golang.org/grpc"
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

	mu      sync.Mutex
	outbox  []delivery
	begin   func() // starts a goroutine that calls send; nil before there is a stream to send to
	sending bool   // there is such a goroutine
	over    bool   // the stream has ended

	dropOnce sync.Once
	dropped  chan struct{}
	reason   error // why it was dropped; written before dropped is closed
}

func newNode() *node {
	return &node{dropped: make(chan struct{})}
}

// attach lets the outbox be sent: begin starts a goroutine that calls send, each time
// that there is something. A node that is asked nothing so holds no goroutine for it.
func (n *node) attach(begin func()) {
	n.mu.Lock()
	n.begin = begin
	n.mu.Unlock()
	n.rouse()
}

// detach sends nothing more, because the stream is over.
func (n *node) detach() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outbox, n.over = nil, true
}

// rouse has the outbox sent, unless that is under way.
func (n *node) rouse() {
	n.mu.Lock()
	due := n.begin != nil && !n.sending && !n.over && len(n.outbox) > 0
	n.sending = n.sending || due
	n.mu.Unlock()
	if due {
		n.begin()
	}
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
	if !n.over {
		n.outbox = append(n.outbox, d)
	}
	n.mu.Unlock()
	n.rouse()
}

// next takes what is to be sent next. When it has nothing the goroutine that sends ends,
// and the next delivery begins another one.
func (n *node) next() (delivery, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.outbox) == 0 {
		n.outbox, n.sending = nil, false
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

// send writes the outbox to the stream, until it is empty or the stream breaks.
func (n *node) send(stream grpc.ServerStream) error {
	for d, ok := n.next(); ok; d, ok = n.next() {
		for _, m := range d.messages {
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
	}
	return nil
}
