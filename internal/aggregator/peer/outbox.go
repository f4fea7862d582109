package peer

import (
	"slices"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// maxWaiting bounds the deliveries queued for a node. A node with more is disconnected because it does not read; a
// node that works continues to read.
const maxWaiting = 1 << 12

// delivery is something to send to a node: a round, its withdrawal, or another message.
type delivery struct {
	round     Round // zero for other messages
	messages  []Encoded
	withdraws bool
}

// outbox has the messages still to be sent to a node, and the answers still expected from it.
type outbox struct {
	mu      sync.Mutex
	waiting []delivery
	pending pending
	stream  Stream          // nil before a stream is attached
	streams *sync.WaitGroup // counts the goroutines that send
	broken  func(error)
	writing bool // a goroutine sends, or was requested
	over    bool // the stream has ended

	sending    delivery    // in progress, while busy
	busy       bool        // false between two deliveries
	stall      *time.Timer // see expectRead
	stallAfter time.Duration
	stalled    func()
}

// attach sets the stream. Like add, it reports whether the caller must call flush.
func (o *outbox) attach(stream Stream, streams *sync.WaitGroup, broken func(error)) (due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stream, o.streams, o.broken = stream, streams, broken
	return o.claim() // earlier messages
}

// Detach stops sending because the stream is over.
func (o *outbox) Detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting, o.over = nil, true
}

// add queues a delivery. If due is true the caller must have flush called on a goroutine that may block.
func (o *outbox) add(d delivery) (due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.over:
	case len(o.waiting) >= maxWaiting:
		o.waiting, o.over = nil, true
		o.stalled()
	default:
		o.waiting = append(o.waiting, d)
	}
	return o.claim()
}

// Queued is the number of deliveries that wait to be sent.
func (o *outbox) Queued() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

// claim reports whether there is something to send and no goroutine sends. Callers hold o.mu.
func (o *outbox) claim() bool {
	if o.stream == nil || o.writing || o.over || len(o.waiting) == 0 {
		return false
	}
	o.writing = true
	o.streams.Add(1)
	return true
}

// flush sends the queue until it is empty or the stream breaks.
func (o *outbox) flush() {
	defer o.streams.Done()
	for d, ok := o.next(); ok; d, ok = o.next() {
		err := sendAll(o.stream, d.messages)
		o.sent() // before next: after that another goroutine may send
		if err != nil {
			o.broken(err)
			return
		}
	}
}

func sendAll(stream Stream, messages []Encoded) error {
	for _, m := range messages {
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// next takes the next delivery. If there is none, the sending goroutine ends, and the next delivery starts another one.
func (o *outbox) next() (delivery, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		o.waiting, o.writing = nil, false
		return delivery{}, false
	}
	d := o.waiting[0]
	o.waiting[0] = delivery{}
	o.waiting = o.waiting[1:]
	o.sending, o.busy = d, true
	switch {
	case d.withdraws:
		o.expectRead() // the transport may have accepted a round that nobody reads
	case d.round.Attempt != 0:
		o.pending.ask(d.round)
	}
	return d, true
}

// sent marks the delivery as sent, or as one that never will be.
func (o *outbox) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending, o.busy = delivery{}, false
	if o.stall != nil {
		o.stall.Stop()
		o.stall = nil
	}
}

// expectRead disconnects the node if the current delivery stays unread for too long, because it occupies memory.
// Callers hold o.mu.
func (o *outbox) expectRead() {
	if o.stall == nil {
		o.stall = time.AfterFunc(o.stallAfter, o.stalled)
	}
}

// Answer uses up the node's answer to a round. It returns empty if one was due, fault.Late if the round is forgotten,
// and otherwise why none was due. A round that is not sent yet has no answer.
func (o *outbox) Answer(r Round) fault.Kind {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind := o.pending.answer(r)
	if kind == "" && r == o.sending.round {
		o.expectRead() // it can answer without reading the rest
	}
	return kind
}

// Asked reports whether the node was sent an attempt and has not answered it yet.
func (o *outbox) Asked(attempt uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pending.asked(attempt)
}

// takeBack removes a round that was not sent yet; it returns false if it was.
func (o *outbox) takeBack(r Round) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, d := range o.waiting {
		if d.round == r {
			o.waiting = slices.Delete(o.waiting, i, i+1)
			return true
		}
	}
	if o.busy && o.sending.round == r {
		o.expectRead()
	}
	return false
}
