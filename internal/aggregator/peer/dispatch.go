package peer

import (
	"runtime"
	"sync/atomic"
	"time"
)

// senderPatience is how long a dispatch's senders may make no progress before each remaining node gets its own
// goroutine.
const senderPatience = 5 * time.Millisecond

// Ask sends a round to nodes, one part per message. It never blocks, and a node that does not read delays no other.
func Ask(nodes []*Node, r Round, messages []Encoded) {
	deliver(nodes, delivery{round: r, messages: messages})
}

// Tell sends the same message to nodes, which need not answer it. It never blocks.
func Tell(nodes []*Node, message Encoded) {
	deliver(nodes, delivery{messages: []Encoded{message}})
}

// RunOver tells nodes that a run has ended, so sites have nothing left to decide.
func RunOver(nodes []*Node, run string, message Encoded) {
	for _, n := range nodes {
		n.Forget(run)
	}
	deliver(nodes, delivery{messages: []Encoded{message}, withdraws: true})
}

// deliver queues the same delivery for nodes.
func deliver(nodes []*Node, what delivery) {
	due := make([]*Node, 0, len(nodes))
	for _, n := range nodes {
		if n.add(what) {
			due = append(due, n)
		}
	}
	dispatch(due)
}

// dispatching sends the outboxes of a list of nodes with a few goroutines; each takes the next node when it is done
// with one. Sending a round to a node that reads takes about as long as starting a goroutine.
type dispatching struct {
	nodes []*Node
	taken atomic.Int64 // nodes taken by senders; exceeds the number of nodes at the end
	seen  int64        // taken when look last checked
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
		runtime.Gosched() // lets the transport send this message before the next one
	}
}

// look checks that nodes that do not read delay no others: if all senders are blocked, each remaining node gets a
// goroutine.
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
