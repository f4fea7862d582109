package dial

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// window is how many bytes may be under way to a node or a student: as much as a message
// may hold. That it is fixed saves the pings by which gRPC measures what would be best, one
// for each message, which thousands of nodes send to one aggregator.
const window = 4 << 20

// TransportOptions are the gRPC settings with which nodes and students keep a connection. They are exported so that
// nodes in measurements behave like real ones.
func TransportOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: PingEvery, Timeout: pingTimeout}),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
	}
}
