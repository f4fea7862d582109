// Package transport is the port of an aggregator for nodes and students: mutual TLS, the
// settings of gRPC, and the interceptors that let a call in by its certificate and end it with
// that. What is known of the peers is in package peer.
package transport

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
)

const (
	// MaxMessageBytes is gRPC's default limit, stated because the sizes of parts and answers
	// are chosen to stay under it.
	MaxMessageBytes = 4 << 20
	// A connection without traffic is pinged after pingEvery and given up pingTimeout later:
	// a dead node is noticed within 20 s.
	pingEvery   = 10 * time.Second
	pingTimeout = 10 * time.Second
	// minPeerPing lets peers ping every 10 s, as package dial does, with room for jitter. A
	// peer that pings three times more often is sent away.
	minPeerPing = 5 * time.Second
	// streamWindow is how many bytes may be under way to the aggregator on a stream before it
	// knows that more follow: a part of a round or of a sum. For a longer message gRPC widens
	// it by that message.
	streamWindow = 1 << 20
	// connWindow is the same on a connection: a whole message. That both are fixed saves the
	// pings by which gRPC measures what would be best, one for each answer.
	connWindow = MaxMessageBytes
	// readBuffer is what a connection keeps while it is idle. Answers are short, and the
	// payload of long ones is not read through it.
	readBuffer = 4 << 10
	// writeBuffer is one TLS record. It is shared: an idle connection has none.
	writeBuffer = 16 << 10
	// maxStreams bounds the calls of a connection that run at the same time. A node has one,
	// a student few.
	maxStreams = 128
	// maxHeaderBytes bounds the headers of a call.
	maxHeaderBytes = 16 << 10
)

// buffers are of all powers of two that a frame may fill, so that one is at least half full.
// gRPC's own are of 4 and 16 KiB: frames of a little more would take four times their bytes.
var buffers = mem.NewTieredBufferPool(256, 2<<10, 4<<10, 8<<10, 16<<10, 32<<10, 1<<20)

// Options are the settings of gRPC that decide what a connection costs. Measurements take
// them too, to compare with a server that has the same ones.
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
