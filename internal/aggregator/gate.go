package aggregator

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
)

const (
	// Of each reason refusalBurst handshakes at once stand in the audit log, and then one
	// in refusalEvery: with all reasons some 14,400 lines a day, whoever knocks however
	// often.
	refusalBurst = 10
	refusalEvery = time.Minute
)

// gate is the TLS of the port of nodes and students. It knows whoever is connected, and
// counts and writes down who was refused in the handshake, which no call ever sees.
type gate struct {
	credentials.TransportCredentials
	server *Server
	now    func() time.Time

	mu     sync.Mutex
	limits map[string]*refusalLimit // by reason
}

// refusalLimit is how many lines of one reason may be written.
type refusalLimit struct {
	lines      float64 // that may be written now
	at         time.Time
	suppressed uint64 // since the last line
}

func newGate(s *Server, config *tls.Config) *gate {
	g := &gate{TransportCredentials: credentials.NewTLS(config), server: s, now: time.Now, limits: map[string]*refusalLimit{}}
	for _, reason := range certs.Refusals() {
		g.limits[reason] = &refusalLimit{lines: refusalBurst, at: g.now()}
		s.metrics.tlsRefused.WithLabelValues(reason)
	}
	return g
}

// ServerHandshake lets a peer in, or notes why not.
func (g *gate) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := g.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		g.refused(raw.RemoteAddr(), err)
		return nil, nil, err
	}
	state, ok := info.(credentials.TLSInfo)
	if !ok || len(state.State.PeerCertificates) == 0 {
		conn.Close()
		return nil, nil, errNoStanding
	}
	return g.server.standings.connect(conn, state), info, nil
}

func (g *gate) Clone() credentials.TransportCredentials { return g }

// refused counts a handshake that ended, and writes it down if there is room.
func (g *gate) refused(from net.Addr, err error) {
	reason := certs.Refusal(err)
	if reason == "" {
		return
	}
	g.server.metrics.tlsRefused.WithLabelValues(reason).Inc()
	suppressed, ok := g.take(reason)
	if !ok {
		g.server.metrics.tlsSuppressed.Inc()
		return
	}
	name, certificate := certs.RefusedPeer(err)
	g.write(caller{name, certificate}, auditlog.Entry{Remote: from.String(), Reason: reason + ": " + err.Error(), Suppressed: suppressed})
}

// take uses up a line; suppressed is how many were not written since the one before.
func (g *gate) take(reason string) (suppressed uint64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.limits[reason]
	l.refill(g.now())
	if l.lines < 1 {
		l.suppressed++
		return 0, false
	}
	l.lines--
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}

func (l *refusalLimit) refill(now time.Time) {
	l.lines = min(refusalBurst, l.lines+now.Sub(l.at).Seconds()/refusalEvery.Seconds())
	l.at = now
}

// flush writes how many refusals were not written, of reasons that may have a line again;
// of all of them at the end.
func (g *gate) flush(end bool) {
	g.mu.Lock()
	due := map[string]uint64{}
	for reason, l := range g.limits {
		if l.suppressed == 0 {
			continue
		}
		if l.refill(g.now()); l.lines < 1 && !end {
			continue
		}
		l.lines--
		due[reason], l.suppressed = l.suppressed, 0
	}
	g.mu.Unlock()
	for reason, n := range due {
		g.write(caller{}, auditlog.Entry{Reason: reason + ": connections that have no line of their own", Suppressed: n})
	}
}

func (g *gate) write(by caller, e auditlog.Entry) {
	e.Event, e.Method, e.Code = auditlog.Refused, "TLS", codes.Unauthenticated.String()
	_ = g.server.audit(by, e) // lost lines are in the log
}
