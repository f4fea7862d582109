package transport

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"

	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
)

// Port is where nodes and students call. Register the services, then Serve.
type Port struct {
	*grpc.Server
	gate     *gate
	refusals *refusals
}

// NewPort returns a port that speaks TLS with this config and admits calls as sessions of their peers. A certificate
// may have mostConns connections.
func NewPort(
	config *tls.Config, mostConns int, sessions *peer.Sessions, metrics Metrics, audit peer.AuditLog,
) *Port {
	refusals := newRefusals(metrics, audit)
	gate := newGate(config, sessions, refusals, newQuotas(mostConns, metrics, audit))
	auth := &authenticator{sessions, newChanges(), audit}
	count := callCounter{metrics}
	return &Port{
		gate:     gate,
		refusals: refusals,
		Server: grpc.NewServer(append(Options(),
			grpc.Creds(gate),
			grpc.InTapHandle(gate.begin),
			grpc.StatsHandler(takes{}),
			grpc.ForceServerCodecV2(newCodec()),
			grpc.ChainUnaryInterceptor(count.unary, auth.unary),
			grpc.ChainStreamInterceptor(count.stream, auth.stream),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.MaxHeaderListSize(maxHeaderBytes),
			grpc.ConnectionTimeout(handshakeTimeout),
			grpc.WaitForHandlers(true),
		)...),
	}
}

// Serve answers on a listener until the port is stopped.
func (p *Port) Serve(l net.Listener) error {
	return p.Server.Serve(countedListener{l, p.gate.handshakes})
}

// Sweep closes connections that stopped in the middle of a message.
func (p *Port) Sweep() { p.gate.quotas.sweep() }

// FlushRefusals writes a line for refused connections that had none, for reasons that may have a line again, or at
// the end for all.
func (p *Port) FlushRefusals(end bool) { p.refusals.flush(end) }

// Services names the services that the port offers to roles.
func Services() []string { return slices.Sorted(maps.Keys(allowed)) }

type callCounter struct{ metrics Metrics }

func (c callCounter) unary(
	ctx context.Context, q any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	end := c.metrics.Begin(info.FullMethod)
	r, err := handler(ctx, q)
	end(err)
	return r, err
}

func (c callCounter) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	end := c.metrics.Begin(info.FullMethod)
	err := handler(srv, stream)
	end(err)
	return err
}
