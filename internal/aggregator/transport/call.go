package transport

import (
	"context"

	"google.golang.org/grpc/stats"
)

const (
	// freeCalls are those of a connection that count for nothing: a node's stream, or a worker's
	// and the round that it asks. Each further one counts for callCost: its headers, with what Go
	// needs for many short ones, and its goroutines.
	freeCalls = 2
	callCost  = 64 << 10
)

// call is a stream as gRPC serves it.
type call struct {
	conn   *conn
	stream *unfinished
}

type callKey struct{}

// took says that the handler took a message.
func (c *call) took(bytes int) {
	c.conn.quota.mu.Lock()
	defer c.conn.quota.mu.Unlock()
	c.stream.took(bytes)
	c.conn.sum()
}

// takes learns from gRPC which messages were taken. The window of a stream tells that late: a quarter
// of it may be taken before the peer is told.
type takes struct{}

// HandleRPC sees what happens to a call.
func (takes) HandleRPC(ctx context.Context, happened stats.RPCStats) {
	in, ok := happened.(*stats.InPayload)
	if !ok {
		return
	}
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.took(in.WireLength)
	}
}

// TagRPC, TagConn and HandleConn have nothing to do.
func (takes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (takes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (takes) HandleConn(context.Context, stats.ConnStats) {}
