package lifetime

import "context"

// Turn is a lock that callers hold during etcd requests. Unlike with a mutex, a waiting caller can give up. The
// channel holds a token while the lock is free.
type Turn chan struct{}

// NewTurn returns a free turn.
func NewTurn() Turn {
	t := make(Turn, 1)
	t.Unlock()
	return t
}

// Lock takes the turn. It fails with the cause of ctx if ctx ends first.
func (t Turn) Lock(ctx context.Context) error {
	select {
	case <-t:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock releases the turn.
func (t Turn) Unlock() { t <- struct{}{} }
