package lifetime

import "context"

// Turn is a lock for those who ask etcd while they hold it: a request that waits for it may go away,
// which none can do that waits for a mutex. It holds a token while it is nobody's.
type Turn chan struct{}

// NewTurn returns a turn that is nobody's.
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
