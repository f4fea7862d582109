package peer

import (
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// stallAfter is how long a node may leave a finished round unread, which occupies memory. A node that works on a long
// round reads nothing meanwhile.
const stallAfter = 10 * time.Minute

// ErrStalled ends a stream that the node does not read.
var ErrStalled = fault.Unavailablef("the node did not read its messages for %v, or %d messages are waiting; connect "+
	"again", stallAfter, maxWaiting)

// Node is one live stream of a node. A node that returns is a new value.
type Node struct {
	ID       ID
	Teachers uint32
	Session  *Session // for the stream's certificate
	Software string   // the version that it reports

	outbox
	permissions permissions

	dropOnce sync.Once
	dropped  chan struct{}
	reason   error // why it was dropped; written before dropped is closed
}

// NewNode returns a node that has not sent its hello; [Node.Attach] gives it a stream.
func NewNode(session *Session) *Node {
	n := &Node{Session: session, dropped: make(chan struct{})}
	n.stallAfter = stallAfter
	n.stalled = func() { n.Drop(ErrStalled) }
	return n
}

// Drop ends the stream with a reason for the node; the first reason counts.
func (n *Node) Drop(reason error) {
	n.dropOnce.Do(func() {
		n.reason = reason
		close(n.dropped)
	})
}

// Dropped is closed when the aggregator ends the stream.
func (n *Node) Dropped() <-chan struct{} { return n.dropped }

// DropReason is why, once Dropped is closed.
func (n *Node) DropReason() error { return n.reason }

// Send queues messages that need no answer, such as a welcome.
func (n *Node) Send(messages ...Encoded) {
	if n.add(delivery{messages: messages}) {
		go n.flush()
	}
}

// Withdraw tells the node that a round needs no answer, or removes the round if it was not sent yet.
func (n *Node) Withdraw(r Round, message Encoded) {
	if n.takeBack(r) {
		return
	}
	if n.add(delivery{messages: []Encoded{message}, withdraws: true}) {
		go n.flush()
	}
}

// Attach sends the outbox on a stream from now on. A goroutine of streams runs only while there is something to send,
// so an idle node costs none. broken gets the error of a stream that fails.
func (n *Node) Attach(stream Stream, streams *sync.WaitGroup, broken func(error)) {
	if n.attach(stream, streams, broken) {
		go n.flush()
	}
}
