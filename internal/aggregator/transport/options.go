// Package transport is the aggregator's port for nodes and students: mutual TLS, the gRPC settings, and the
// interceptors that admit a call by its certificate and end it with that certificate. Package peer tracks the peers.
package transport

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
)

const (
	// MaxMessageBytes is gRPC's default limit, stated because the sizes of parts and answers stay below it.
	MaxMessageBytes = 4 << 20
	// An idle connection is pinged after pingEvery and closed pingTimeout later, so a dead node is noticed within 20
	// s.
	pingEvery   = 10 * time.Second
	pingTimeout = 10 * time.Second
	// minPeerPing lets peers ping every 10 s, as package dial does, with room for jitter. A peer that pings three
	// times more often is disconnected.
	minPeerPing = 5 * time.Second
	// streamWindow is how many bytes of a stream may be in flight to the aggregator before it knows of more: a part
	// of a round or of a sum. For a longer message gRPC widens the window by that message.
	streamWindow = 1 << 20
	// connWindow is the window of a connection: a whole message. Fixed windows save the pings that gRPC would send to
	// measure the best size, one for each answer.
	connWindow = MaxMessageBytes
	// readBuffer is the memory of an idle connection. Answers are short, and the payload of long ones bypasses it.
	readBuffer = 4 << 10
	// writeBuffer is one TLS record. It is shared: an idle connection has none.
	writeBuffer = 16 << 10
	// maxStreams bounds the concurrent calls of a connection. A node has one, a student few.
	maxStreams = 128
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 16 << 10
)

// buffers has every power of two, so that each buffer is at least half full. gRPC's own pool has 4 and 16 KiB: frames
// slightly over 4 KiB would take four times their bytes.
var buffers = mem.NewTieredBufferPool(256, 2<<10, 4<<10, 8<<10, 16<<10, 32<<10, 1<<20)

// Options are the gRPC settings that determine the cost of a connection. Measurements use them, too, for comparable
// servers.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPeerPing, PermitWithoutStream: true}),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.WriteBufferSize(writeBuffer),
		experimental.BufferPool(buffers),
	}
}
