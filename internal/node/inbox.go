package node

import (
	"context"
	"slices"
	"sync"
)

// maxWaiting bounds the rounds that wait at a node. A round more waits at the
// aggregator: the stream's flow control holds it back.
const maxWaiting = 8

// task is a whole round, or why its parts do not make one.
type task struct {
	run      string
	round    uint64
	attempt  uint64 // names the asking; the answer brings it back
	question *received
	spec     announced
	refusal  error
}

// inbox holds the rounds that the receiver has taken and the node has not
// answered yet, so that one that is withdrawn in time costs nothing.
type inbox struct {
	room   chan struct{} // holds a token for each waiting task
	filled chan struct{} // holds one token while there may be a task

	mu    sync.Mutex
	tasks []task
}

func newInbox() *inbox {
	return &inbox{room: make(chan struct{}, maxWaiting), filled: make(chan struct{}, 1)}
}

// put adds a task; it waits for room until ctx ends.
func (b *inbox) put(ctx context.Context, t task) error {
	select {
	case b.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	b.mu.Lock()
	b.tasks = append(b.tasks, t)
	b.mu.Unlock()
	select {
	case b.filled <- struct{}{}:
	default:
	}
	return nil
}

// take removes the oldest task, if there is one.
func (b *inbox) take() (task, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.tasks) == 0 {
		return task{}, false
	}
	t := b.tasks[0]
	b.tasks = slices.Delete(b.tasks, 0, 1)
	<-b.room
	return t, true
}

// withdraw removes the waiting tasks of a round.
func (b *inbox) withdraw(run string, round uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks = slices.DeleteFunc(b.tasks, func(t task) bool {
		gone := t.run == run && t.round == round
		if gone {
			<-b.room
		}
		return gone
	})
}
