package aggregator

import (
	"context"
	"maps"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
)

const (
	// sweepEvery is how soon somebody who says nothing is put out, at most.
	sweepEvery = time.Second
	// farewell is how long a connection stays after its certificate ended, so that its
	// calls hear why.
	farewell = time.Second
)

// errNoStanding is the reason of a call without TLS, which the listener does not take.
var errNoStanding = faultf(codes.Unauthenticated, "the connection has no certificate; dial with a client certificate")

// standings are the connections and calls of the port. A certificate is good for as long as
// it lasts and is not revoked, also on a connection that was made before.
type standings struct {
	guard *certs.Guard

	mu          sync.Mutex
	connections map[string]*connection // by the other side's address
	calls       map[*standing]bool
}

func newStandings(guard *certs.Guard) *standings {
	return &standings{guard: guard, connections: map[string]*connection{}, calls: map[*standing]bool{}}
}

// connection is one of a peer whose certificate was good in the handshake.
type connection struct {
	net.Conn
	peer    *certs.Peer
	from    *standings
	expires sync.Once
	timer   *time.Timer
}

func (s *standings) connect(conn net.Conn, state credentials.TLSInfo) *connection {
	c := &connection{Conn: conn, from: s, peer: certs.NewPeer(state.State.PeerCertificates[0])}
	s.mu.Lock()
	s.connections[conn.RemoteAddr().String()] = c
	s.mu.Unlock()
	return c
}

// Close also forgets the connection.
func (c *connection) Close() error {
	address := c.RemoteAddr().String()
	c.from.mu.Lock()
	if c.from.connections[address] == c {
		delete(c.from.connections, address)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// expel closes the connection soon.
func (c *connection) expel() {
	c.expires.Do(func() {
		c.from.mu.Lock()
		defer c.from.mu.Unlock()
		if c.from.connections[c.RemoteAddr().String()] == c {
			c.timer = time.AfterFunc(farewell, func() { c.Close() })
		}
	})
}

// standing is that of the certificate behind a call, for as long as the call lasts.
type standing struct {
	peer *certs.Peer
	from *standings
	conn *connection

	once   sync.Once
	out    chan struct{} // closed when the certificate is not good any more
	reason error         // why; written before out is closed
	end    context.CancelCauseFunc
}

type standingKey struct{}

// standingOf returns the standing of the call of ctx, nil where it has none.
func standingOf(ctx context.Context) *standing {
	s, _ := ctx.Value(standingKey{}).(*standing)
	return s
}

// enter begins a call of a peer; leave ends it. The context ends when the certificate does.
func (s *standings) enter(ctx context.Context) (known context.Context, st *standing, err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, nil, errNoStanding
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil, nil, errNoStanding
	}
	st = &standing{from: s, peer: certs.NewPeer(info.State.PeerCertificates[0]), out: make(chan struct{})}
	ctx, st.end = context.WithCancelCause(ctx)
	s.mu.Lock()
	st.conn = s.connections[p.Addr.String()]
	s.calls[st] = true
	s.mu.Unlock()
	return context.WithValue(ctx, standingKey{}, st), st, nil
}

func (st *standing) leave() {
	st.from.mu.Lock()
	delete(st.from.calls, st)
	st.from.mu.Unlock()
	st.end(nil)
}

// check is for every message, received or sent.
func (st *standing) check() error {
	if err := st.expelled(); err != nil {
		return err
	}
	err := st.from.guard.Check(st.peer)
	if err == nil {
		return nil
	}
	st.once.Do(func() {
		st.reason = faultf(codes.Unauthenticated, "the peer's certificate is not good any more: %w", err)
		close(st.out)
		st.end(st.reason)
		if st.conn != nil {
			st.conn.expel()
		}
	})
	return st.expelled()
}

// expelled is why the certificate is not good any more, as far as it was noticed.
func (st *standing) expelled() error {
	select {
	case <-st.out:
		return st.reason
	default:
		return nil
	}
}

// left is closed when the certificate is not good any more; nil of no standing.
func (st *standing) left() <-chan struct{} {
	if st == nil {
		return nil
	}
	return st.out
}

// sweep puts out whoever's certificate is not good any more.
func (s *standings) sweep() {
	s.mu.Lock()
	calls := maps.Clone(s.calls)
	connections := maps.Clone(s.connections)
	s.mu.Unlock()
	for st := range calls {
		_ = st.check()
	}
	for _, c := range connections {
		if s.guard.Check(c.peer) != nil {
			c.expel()
		}
	}
}

// guardedStream is a stream whose context holds the peer's identity and standing, which is
// looked at for every message.
type guardedStream struct {
	grpc.ServerStream
	ctx      context.Context
	standing *standing
}

func (s guardedStream) Context() context.Context { return s.ctx }

// RecvMsg takes no message that comes after the end of the certificate.
func (s guardedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.standing.check()
}

// SendMsg sends nothing after the end of the certificate.
func (s guardedStream) SendMsg(m any) error {
	if err := s.standing.check(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// ended is the error of a call: that its certificate ended comes before all else, and is in
// the audit log.
func (s *Server) ended(ctx context.Context, st *standing, method string, err error) error {
	if reason := st.expelled(); reason != nil {
		s.auditRefusal(callerOf(ctx), reason, auditlog.Entry{Method: method})
		return reason
	}
	return err
}
