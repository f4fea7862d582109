package transport

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
)

// mostHeld bounds, for one certificate, the bytes of messages that are incomplete or that nobody took. An honest
// connection sends one message at a time: a part of a round or of a sum has 1 MiB, votes have 4 at most. So 60 nodes
// of a site, or 60 rounds of a student, may each be in the middle of a part.
//
// gRPC has no such bound. A connection's window does not limit a peer, because each byte is credited on arrival; a
// stream's window is widened for a longer message; and a certificate may open many connections. Smaller windows would
// bound a stream, but not a certificate. Pausing reads would delay pings and so end connections, mostly honest ones.
const mostHeld = 64 << 20

const (
	// mostRefused bounds the excess connections of a certificate that are told why, and closed refusedFor later; more
	// of them are closed at once.
	mostRefused = 64
	refusedFor  = time.Second
)

// Why a connection is closed, as metrics name it.
const (
	overQuota = "quota"
	stopped   = "stopped"
	tooMany   = "connections"
)

var (
	errQuota = fault.Errorf(codes.ResourceExhausted, "the certificate's connections have more than %d bytes of "+
		"incomplete or unread messages; this connection has the most", mostHeld)
	errStopped = fault.Errorf(codes.Aborted, "an incomplete message: it did not arrive within %v, plus as much for "+
		"each MiB", eachMiB)
)

// quotas count what peers occupy of the port's memory, by certificate.
type quotas struct {
	most    int // connections per certificate
	metrics Metrics
	audit   peer.AuditLog
	now     func() time.Time

	mu sync.Mutex
	of map[peer.Caller]*quota // of connected peers
}

func newQuotas(most int, metrics Metrics, audit peer.AuditLog) *quotas {
	for _, reason := range []string{overQuota, stopped, tooMany} {
		metrics.Cut(reason, 0)
	}
	return &quotas{most: most, metrics: metrics, audit: audit, now: time.Now, of: map[peer.Caller]*quota{}}
}

// quota is the quota of one certificate. Its lock also guards its connections.
type quota struct {
	mu    sync.Mutex
	conns map[*conn]bool
	held  int
}

// connect returns a peer's connection, which counts for its certificate until it is closed. If the certificate has
// too many, the connection refuses all calls with a message and is closed soon.
func (q *quotas) connect(raw net.Conn, by peer.Caller) (*conn, error) {
	c := &conn{Conn: raw, from: q, by: by, streams: map[uint32]*unfinished{}}
	c.received.preface = prefaceBytes
	open := q.add(c)
	if open <= q.most {
		return c, nil
	}
	why := fault.TooManyf("the certificate of %s has %d connections to the aggregator, the maximum "+
		"(max_connections); close some, use several certificates, or have the operator raise "+
		"max_connections", by.Name, q.most)
	q.tell([]*conn{c}, tooMany, why)
	if open > q.most+mostRefused {
		q.forget(c)
		return nil, why
	}
	c.quota.mu.Lock()
	c.refused = status.Error(codes.Unavailable, why.Error()) // a node or a run retries and does not end
	c.quota.mu.Unlock()
	time.AfterFunc(refusedFor, func() { c.Close() })
	return c, nil
}

// add counts a connection for its certificate, and returns how many that certificate has.
func (q *quotas) add(c *conn) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.quota = q.of[c.by]; c.quota == nil {
		c.quota = &quota{conns: map[*conn]bool{}}
		q.of[c.by] = c.quota
	}
	c.quota.mu.Lock()
	defer c.quota.mu.Unlock()
	c.quota.conns[c] = true
	return len(c.quota.conns)
}

// forget removes a closed connection.
func (q *quotas) forget(c *conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.quota.mu.Lock()
	defer c.quota.mu.Unlock()
	c.end(net.ErrClosed)
	if len(c.quota.conns) == 0 && q.of[c.by] == c.quota {
		delete(q.of, c.by)
	}
}

// sweep cuts connections with an overdue message.
func (q *quotas) sweep() {
	now := q.now()
	var cut []*conn
	q.mu.Lock()
	for _, one := range q.of {
		one.mu.Lock()
		for c := range one.conns {
			if c.late(now) {
				c.cut(errStopped)
				cut = append(cut, c)
			}
		}
		one.mu.Unlock()
	}
	q.mu.Unlock()
	q.tell(cut, stopped, errStopped)
}

// keep cuts connections, largest first, until the rest is within the bound. So an honest node continues while another
// one of its site exceeds it.
func (q *quota) keep() (cut []*conn) {
	for q.held > mostHeld {
		var most *conn
		for c := range q.conns {
			if most == nil || c.held > most.held {
				most = c
			}
		}
		most.cut(errQuota)
		cut = append(cut, most)
	}
	return cut
}

// tell logs which connections were cut or refused. It holds no lock, because the disk may be slow.
func (q *quotas) tell(cut []*conn, reason string, why error) {
	for _, c := range cut {
		q.metrics.Cut(reason, 1)
		q.audit.Refusal(c.by, why, auditlog.Entry{Remote: c.RemoteAddr().String()})
	}
}
