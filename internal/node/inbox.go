package node

import (
	"context"
	"errors"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxWaiting bounds the waiting tasks of a node, and maxWaitingBytes their size.
	maxWaiting      = 1024
	maxWaitingBytes = 8 * maxRoundBytes
)

// errFull refuses a round if the node has no room for it.
var errFull = errors.New("too many rounds are waiting at this node; ask again when some are answered")

// errFlooded ends a stream whose aggregator continues to send although there is no room.
var errFlooded = errors.New("the aggregator sent more rounds and permit requests than a node keeps")

// task is a complete round, an error in its parts, or the question whether a run is permitted.
type task struct {
	run      string
	round    uint64
	attempt  uint64 // identifies the request; the answer repeats it
	question *received
	masked   *conclavev1.MaskedRound // with a question of a masked run
	permit   *conclavev1.Permit
	opens    *conclavev1.WorkResponse // survivors or an agreement, of a masked round
	sign     *conclavev1.LedgerHead   // head of the dataset's ledger
	spec     announced
	refusal  error
	wanted   context.Context // of a round, until it is withdrawn; nil for others
}

// bytes is the size that the task took on the stream. A name counts even if it is invalid, because it is kept to be
// refused.
func (t task) bytes() int {
	n := len(t.spec.raw) + max(0, len(t.run)-runspec.LongestName) + proto.Size(t.masked) + proto.Size(t.permit) +
		proto.Size(t.opens) + proto.Size(t.sign)
	if t.question != nil {
		n += t.question.bytes
	}
	return n
}

// inbox has the rounds that were received and are not answered yet, so that a withdrawn one costs nothing.
//
// It never blocks the receiver: ledger entries, permits and withdrawals follow the rounds in the stream, and the time
// when they are read must not depend on the duration of rounds.
type inbox struct {
	*queue // the rounds
	// beside has permits, and refusals of rounds without room. They are answered at once, without waiting for rounds,
	// because the teachers' time can depend on records.
	beside *queue
	// inHand is the round taken last, and giveUp ends the work on it. Guarded by the lock of the rounds.
	inHand task
	giveUp context.CancelCauseFunc
}

func newInbox() *inbox { return &inbox{queue: newQueue(), beside: newQueue()} }

// errWithdrawn ends the work on a round that continues without this node.
var errWithdrawn = errors.New("the round continued without this node")

// queue has tasks in order.
type queue struct {
	filled chan struct{} // has one token while there may be a task

	mu    sync.Mutex
	tasks []task
	bytes int // of the tasks
}

func newQueue() *queue { return &queue{filled: make(chan struct{}, 1)} }

// put adds a round. If there is no room it is refused; the error says that there is no room for the refusal either.
func (b *inbox) put(t task) error {
	if b.add(t) {
		return nil
	}
	t.question, t.masked, t.spec, t.refusal = nil, nil, announced{}, errFull
	return b.putBeside(t)
}

// putBeside adds a task that does not wait for rounds.
func (b *inbox) putBeside(t task) error {
	if !b.beside.add(t) {
		return errFlooded
	}
	return nil
}

// add adds a task if there is room.
func (b *queue) add(t task) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tasks) == maxWaiting || b.bytes+t.bytes() > maxWaitingBytes {
		return false
	}
	b.tasks, b.bytes = append(b.tasks, t), b.bytes+t.bytes()
	select {
	case b.filled <- struct{}{}:
	default:
	}
	return true
}

// take removes the oldest round, which is in hand from now on.
func (b *inbox) take() (task, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.giveUp != nil {
		b.giveUp(nil)
	}
	t, ok := b.pop()
	t.wanted, b.giveUp = context.WithCancelCause(context.Background())
	b.inHand = task{run: t.run, round: t.round}
	return t, ok
}

// take removes the oldest task, if there is one.
func (b *queue) take() (task, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pop()
}

// pop is take with the lock held.
func (b *queue) pop() (task, bool) {
	if len(b.tasks) == 0 {
		return task{}, false
	}
	t := b.tasks[0]
	b.tasks, b.bytes = slices.Delete(b.tasks, 0, 1), b.bytes-t.bytes()
	return t, true
}

// withdraw removes the waiting tasks of a round, and ends the work on it.
func (b *inbox) withdraw(run string, round uint64) {
	b.drop(func(t task) bool { return t.run == run && t.round == round })
}

// over removes the waiting tasks of a run that has ended, and ends the work on it.
func (b *inbox) over(run string) {
	of := func(t task) bool { return t.run == run }
	b.drop(of)
	b.beside.remove(of)
}

// drop removes rounds, including the one in hand.
func (b *inbox) drop(which func(task) bool) {
	b.remove(which)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.giveUp != nil && which(b.inHand) {
		b.giveUp(errWithdrawn)
	}
}

func (b *queue) remove(which func(task) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks = slices.DeleteFunc(b.tasks, func(t task) bool {
		gone := which(t)
		if gone {
			b.bytes -= t.bytes()
		}
		return gone
	})
}
