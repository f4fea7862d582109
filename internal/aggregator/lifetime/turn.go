package lifetime

import "context"

// Turn is a lock for callers that ask etcd while they have it. Unlike with a mutex, a waiting request can give up. The
// channel holds a token while the lock is free.
type Turn chan struct{}

// NewTurn returns a free turn.
func NewTurn() Turn {
	t := make(Turn, 1)
	t.Unlock()
	return t
}

// Lock takes the turn. The error is why ctx ended first.
func (t Turn) Lock(ctx context.Context) error {
	select {
	case <-t:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock gives the turn to the next.
func (t Turn) Unlock() { t <- struct{}{} }
