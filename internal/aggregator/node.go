package aggregator

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// nodeID names a node within its dataset.
type nodeID struct{ site, name string }

func (id nodeID) String() string { return id.site + "/" + id.name }

// delivery is something to send to a node: a round, or its withdrawal.
type delivery struct {
	asking
	messages []encoded
	withdraw bool
}

// node is one live stream of a node. A node that comes back is a new value.
type node struct {
	id       nodeID
	teachers uint32
	standing *standing // of the stream's certificate

	mu      sync.Mutex
	owed    owed
	outbox  []delivery
	waits   map[string]string // runs that its site has to decide about, and why
	write   func()            // sends the outbox; nil before there is a stream to send to
	streams *sync.WaitGroup   // counts the goroutines that do
	writing bool              // there is one, or it was asked for
	over    bool              // the stream has ended

	sending    delivery    // on its way, while busy
	busy       bool        // between two deliveries it is not
	stall      *time.Timer // see expectRead
	stallAfter time.Duration

	dropOnce sync.Once
	dropped  chan struct{}
	reason   error // why it was dropped; written before dropped is closed
}

// stallAfter is how long a node may leave a round unread that is over: it holds the round
// in memory. A node that works on something long reads nothing meanwhile.
const stallAfter = 10 * time.Minute

// errStalled is the reason a stream ends with that is not read.
var errStalled = unavailablef("nothing of a round that is over was read for %v; connect again", stallAfter)

func newNode() *node {
	return &node{dropped: make(chan struct{}), stallAfter: stallAfter}
}

// attach lets the outbox be sent, by write on a goroutine of streams each time that there is
// something. A node that is asked nothing so holds no goroutine for it.
func (n *node) attach(streams *sync.WaitGroup, write func()) {
	n.mu.Lock()
	n.streams, n.write = streams, write
	due := n.claim() // what was queued before
	n.mu.Unlock()
	if due {
		go n.flush()
	}
}

// detach sends nothing more, because the stream is over.
func (n *node) detach() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outbox, n.over = nil, true
}

// claim says that the outbox is to be sent and nobody does: the caller has flush called, on
// a goroutine on which it may block. Callers hold n.mu.
func (n *node) claim() bool {
	if n.write == nil || n.writing || n.over || len(n.outbox) == 0 {
		return false
	}
	n.writing = true
	n.streams.Add(1)
	return true
}

func (n *node) flush() {
	defer n.streams.Done()
	n.write()
}

// queue queues a delivery, and says whether flush is to be called for it; see claim.
func (n *node) queue(d delivery) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.over {
		n.outbox = append(n.outbox, d)
	}
	return n.claim()
}

// answers uses up the node's answer to a round; see owed. A round that is not on its way yet
// has no answer: who makes one up has not read what came before.
func (n *node) answers(a asking) (kind string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	kind = n.owed.answer(a)
	if kind == "" && a == n.sending.asking {
		n.expectRead() // it need not read the rest for its answer
	}
	return kind
}

// expectRead drops the node if what is on its way stays there too long: it holds memory for
// nothing. Callers hold n.mu.
func (n *node) expectRead() {
	if n.stall == nil {
		n.stall = time.AfterFunc(n.stallAfter, func() { n.drop(errStalled) })
	}
}

// withdraw tells the node that a round needs no answer, or takes the round
// back when it was not sent yet.
func (n *node) withdraw(key roundKey, message encoded) {
	n.mu.Lock()
	for i, d := range n.outbox {
		if d.key == key && !d.withdraw {
			n.outbox = slices.Delete(n.outbox, i, i+1)
			n.mu.Unlock()
			return
		}
	}
	if n.busy && n.sending.key == key {
		n.expectRead()
	}
	n.mu.Unlock()
	n.enqueue(delivery{asking: asking{key: key}, messages: []encoded{message}, withdraw: true})
}

// enqueue queues a delivery and has it sent.
func (n *node) enqueue(d delivery) {
	if n.queue(d) {
		go n.flush()
	}
}

// next takes what is to be sent next. When it has nothing the goroutine that sends ends,
// and the next delivery begins another one.
func (n *node) next() (delivery, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.outbox) == 0 {
		n.outbox, n.writing = nil, false
		return delivery{}, false
	}
	d := n.outbox[0]
	n.outbox[0] = delivery{}
	n.outbox = n.outbox[1:]
	n.sending, n.busy = d, true
	switch {
	case d.withdraw:
		n.expectRead() // the transport may have taken a round that nobody reads
	case d.attempt != 0: // not so a welcome
		n.owed.ask(d.asking)
	}
	return d, true
}

// sent notes that what was sent is out, or never will be.
func (n *node) sent() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sending, n.busy = delivery{}, false
	if n.stall != nil {
		n.stall.Stop()
		n.stall = nil
	}
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
		err := sendAll(stream, d.messages)
		n.sent() // before next: from there on another goroutine may send
		if err != nil {
			return err
		}
	}
	return nil
}

func sendAll(stream grpc.ServerStream, messages []encoded) error {
	for _, m := range messages {
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// receive passes what a peer sends to in, until done is closed or the stream breaks or
// ends.
func receive[M any](stream interface{ Recv() (M, error) }, in chan<- M, done <-chan struct{}) error {
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
