package transport

import (
	"context"

	"google.golang.org/grpc/stats"
)

const (
	// freeCalls are the calls of a connection that are not counted: a node's stream, or a worker's stream and its
	// current round. Each further call counts as callCost: its headers with Go's overhead for many short ones, and
	// its goroutines.
	freeCalls = 2
	callCost  = 64 << 10
)

// call is a stream served by gRPC.
type call struct {
	conn   *conn
	stream *unfinished
}

type callKey struct{}

// took records that the handler took a message.
func (c *call) took(bytes int) {
	c.conn.quota.mu.Lock()
	defer c.conn.quota.mu.Unlock()
	c.stream.took(bytes)
	c.conn.sum()
}

// takes learns from gRPC which messages handlers took. A stream's window shows that late: a quarter of it may be
// taken before the peer is told.
type takes struct{}

// HandleRPC receives the events of a call.
func (takes) HandleRPC(ctx context.Context, happened stats.RPCStats) {
	in, ok := happened.(*stats.InPayload)
	if !ok {
		return
	}
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.took(in.WireLength)
	}
}

// TagRPC, TagConn and HandleConn do nothing.
func (takes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (takes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (takes) HandleConn(context.Context, stats.ConnStats) {}
