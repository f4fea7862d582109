package peer

import (
	"runtime"
	"sync/atomic"
	"time"
)

// senderPatience is how long a dispatch's senders may make no progress before each remaining node gets its own
// goroutine.
const senderPatience = 5 * time.Millisecond

// Ask sends a round to nodes, in messages of one part each. It never blocks, and a node that
// does not read holds up no other.
func Ask(nodes []*Node, r Round, messages []Encoded) {
	deliver(nodes, delivery{round: r, messages: messages})
}

// Tell sends the same message to nodes, which need not answer it. It never blocks.
func Tell(nodes []*Node, message Encoded) {
	deliver(nodes, delivery{messages: []Encoded{message}})
}

// RunOver tells nodes by a message that a run has ended: there is nothing left to decide
// for those whose site has to.
func RunOver(nodes []*Node, run string, message Encoded) {
	for _, n := range nodes {
		n.Forget(run)
	}
	deliver(nodes, delivery{messages: []Encoded{message}, withdraws: true})
}

// deliver sends the same to nodes.
func deliver(nodes []*Node, what delivery) {
	due := make([]*Node, 0, len(nodes))
	for _, n := range nodes {
		if n.add(what) {
			due = append(due, n)
		}
	}
	dispatch(due)
}

// dispatching is a list of nodes whose outboxes are sent by a few goroutines, each of which
// takes the next node when it is done with one: to send a round to a node that reads takes
// about as long as to start a goroutine.
type dispatching struct {
	nodes []*Node
	taken atomic.Int64 // the nodes that a sender came to; more once there are none left
	seen  int64        // how many these were when look looked last
}

// dispatch flushes nodes whose outboxes were claimed.
func dispatch(nodes []*Node) {
	if len(nodes) == 0 {
		return
	}
	d := &dispatching{nodes: nodes}
	senders := min(runtime.GOMAXPROCS(0), len(nodes))
	if senders < len(nodes) {
		time.AfterFunc(senderPatience, d.look)
	}
	for range senders {
		go d.send()
	}
}

func (d *dispatching) send() {
	for i := d.taken.Add(1); i <= int64(len(d.nodes)); i = d.taken.Add(1) {
		d.nodes[i-1].flush()
		runtime.Gosched() // the transport's turn: what is sent goes out before the next is
	}
}

// look sees to it that nodes that do not read hold up no others: with all senders held up,
// there is one for each node that is left.
func (d *dispatching) look() {
	taken := d.taken.Load()
	left := int64(len(d.nodes)) - taken
	if left <= 0 {
		return
	}
	if taken > d.seen {
		d.seen = taken
		time.AfterFunc(senderPatience, d.look)
		return
	}
	for range left {
		go d.send()
	}
}
