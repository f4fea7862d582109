package peer

import (
	"context"
	"crypto/x509"
	"maps"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
)

// farewell is how long a connection stays open after its certificate ended, so that its calls receive the reason.
const farewell = time.Second

// Sessions are the connections and calls on the aggregator's port. Expiry and revocation of a certificate also end
// existing connections.
type Sessions struct {
	certificates *tlsconfig.Credentials

	mu          sync.Mutex
	connections map[string]*connection // by the other side's address
	calls       map[*Session]bool
}

// NewSessions returns a set of sessions without any.
func NewSessions(certificates *tlsconfig.Credentials) *Sessions {
	return &Sessions{certificates: certificates, connections: map[string]*connection{}, calls: map[*Session]bool{}}
}

// connection is a connection whose certificate was valid in the handshake.
type connection struct {
	net.Conn
	peer    *tlsconfig.Peer
	from    *Sessions
	expires sync.Once
	timer   *time.Timer
}

// Connect adds a connection whose handshake verified a certificate.
func (s *Sessions) Connect(conn net.Conn, certificate *x509.Certificate) net.Conn {
	c := &connection{Conn: conn, from: s, peer: tlsconfig.NewPeer(certificate)}
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

// closeSoon closes the connection after farewell.
func (c *connection) closeSoon() {
	c.expires.Do(func() {
		c.from.mu.Lock()
		defer c.from.mu.Unlock()
		if c.from.connections[c.RemoteAddr().String()] == c {
			c.timer = time.AfterFunc(farewell, func() { c.Close() })
		}
	})
}

// Session is one call of a peer. It ends with the call or with the validity of the certificate.
type Session struct {
	Identity certs.Identity
	Caller   Caller

	certificate *tlsconfig.Peer
	from        *Sessions
	conn        *connection

	once   sync.Once
	ended  chan struct{} // closed when the certificate becomes invalid
	reason error         // why; written before ended is closed
	cancel context.CancelCauseFunc
}

type sessionKey struct{}

// SessionOf returns the session in a call's context, or an empty one.
func SessionOf(ctx context.Context) *Session {
	if s, ok := ctx.Value(sessionKey{}).(*Session); ok {
		return s
	}
	return &Session{}
}

// Begin adds a peer's call from an address; [Session.Leave] ends it. The context ends when the certificate becomes
// invalid.
func (s *Sessions) Begin(
	ctx context.Context, address string, certificate *x509.Certificate, id certs.Identity, by Caller,
) (context.Context, *Session) {
	session := &Session{
		Identity: id, Caller: by, from: s, certificate: tlsconfig.NewPeer(certificate), ended: make(chan struct{}),
	}
	ctx, session.cancel = context.WithCancelCause(ctx)
	s.mu.Lock()
	session.conn = s.connections[address]
	s.calls[session] = true
	s.mu.Unlock()
	return context.WithValue(ctx, sessionKey{}, session), session
}

// Leave ends the session because its call is over.
func (s *Session) Leave() {
	s.from.mu.Lock()
	delete(s.from.calls, s)
	s.from.mu.Unlock()
	s.cancel(nil)
}

// Check verifies the certificate. It is called for every message, received or sent. Once the certificate was invalid
// the session stays ended.
func (s *Session) Check() error {
	if err := s.Reason(); err != nil {
		return err
	}
	err := s.from.certificates.Check(s.certificate)
	if err == nil {
		return nil
	}
	s.once.Do(func() {
		s.reason = fault.Errorf(codes.Unauthenticated, "the peer's certificate is no longer valid: %w", err)
		close(s.ended)
		s.cancel(s.reason)
		if s.conn != nil {
			s.conn.closeSoon()
		}
	})
	return s.Reason()
}

// Ended is closed when the certificate becomes invalid.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Reason is why the session ended, nil until its end is noticed.
func (s *Session) Reason() error {
	select {
	case <-s.ended:
		return s.reason
	default:
		return nil
	}
}

// HangUp closes the call's connection, with all other calls on it.
func (s *Session) HangUp() {
	if s.conn != nil {
		_ = s.conn.Close() // it may be closed already
	}
}

// Revoked returns nil unless the session's certificate is revoked; see [tlsconfig.Credentials.Revoked].
func (s *Session) Revoked() error { return s.from.certificates.Revoked(s.certificate) }

// Expires is when the session's certificate ends.
func (s *Session) Expires() time.Time { return s.certificate.Expires() }

// Edition is the edition of the revocation list; see [tlsconfig.Credentials.Edition].
func (s *Session) Edition() uint64 { return s.from.certificates.Edition() }

// Sweep ends sessions and connections whose certificate is no longer valid.
func (s *Sessions) Sweep() {
	s.mu.Lock()
	calls := maps.Clone(s.calls)
	connections := maps.Clone(s.connections)
	s.mu.Unlock()
	for session := range calls {
		_ = session.Check()
	}
	for _, c := range connections {
		if s.certificates.Check(c.peer) != nil {
			c.closeSoon()
		}
	}
}
