package transport

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
)

// errNoCertificate refuses a call without TLS, which the listener does not accept.
var errNoCertificate = fault.Errorf(codes.Unauthenticated,
	"the connection has no client certificate; connect with one")

// gate is the TLS of the port. It bounds handshakes and the memory of connections, adds connections to the sessions,
// and reports peers refused in the handshake, which no call ever sees.
type gate struct {
	credentials.TransportCredentials
	handshakes *handshakes
	sessions   *peer.Sessions
	refusals   *refusals
	quotas     *quotas
}

func newGate(config *tls.Config, sessions *peer.Sessions, refusals *refusals, quotas *quotas) *gate {
	return &gate{credentials.NewTLS(config), newHandshakes(maxHandshakes), sessions, refusals, quotas}
}

// ServerHandshake accepts a peer, or reports why not.
func (g *gate) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	defer g.handshakes.end(raw)
	conn, info, err := g.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		g.refusals.add(raw.RemoteAddr(), err)
		return nil, nil, err
	}
	state, ok := info.(credentials.TLSInfo)
	if !ok || len(state.State.PeerCertificates) == 0 {
		conn.Close()
		return nil, nil, errNoCertificate
	}
	by := peer.Caller{}
	by.Name, by.Certificate = certs.PeerName(state.State)
	counted, err := g.quotas.connect(conn, by)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return g.sessions.Connect(counted, state.State.PeerCertificates[0]), connInfo{state, counted}, nil
}

// connInfo is what calls know about their connection.
type connInfo struct {
	credentials.TLSInfo
	conn *conn
}

// begin is called by a connection's reader for each new call, before it reads on.
func (g *gate) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(connInfo); ok {
			return info.conn.begin(ctx)
		}
	}
	return ctx, fault.Status(errNoCertificate)
}

// Clone returns the same gate, because it counts for the whole port.
func (g *gate) Clone() credentials.TransportCredentials { return g }
