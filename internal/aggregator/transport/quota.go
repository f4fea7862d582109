package transport

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
)

// mostHeld bounds what the connections of one certificate have sent of messages that are not
// whole, or that nobody took. An honest connection sends one message at a time: a part of a
// round or of a sum has 1 MiB, votes have 4 at most. So 60 nodes of a site may be in the middle
// of a part at the same moment, and a student with 60 rounds.
//
// gRPC has no such bound. The window of a connection does not hold a peer up, as each byte is
// given back when it comes; the window of a stream is widened for a message that is longer; and
// a certificate may open many connections. Smaller windows and messages would bound a stream,
// and not a certificate. To read no more while too much is held would end connections too, as
// pings wait behind, and rather the honest ones.
const mostHeld = 64 << 20

// Why a connection is closed, as metrics name it.
const (
	overQuota = "quota"
	stopped   = "stopped"
)

var (
	errQuota = fault.Errorf(codes.ResourceExhausted, "the certificate's connections hold more than %d bytes of "+
		"messages that are not whole or were not asked for; this one held the most of them", mostHeld)
	errStopped = fault.Errorf(codes.Aborted, "a message stopped half sent: it was not whole within %v "+
		"and as much for each MiB", eachMiB)
)

// quotas are what peers hold of the port's memory, by certificate.
type quotas struct {
	metrics Metrics
	audit   peer.AuditLog
	now     func() time.Time

	mu sync.Mutex
	of map[peer.Caller]*quota // of those that are connected
}

func newQuotas(metrics Metrics, audit peer.AuditLog) *quotas {
	for _, reason := range []string{overQuota, stopped} {
		metrics.Cut(reason, 0)
	}
	return &quotas{metrics: metrics, audit: audit, now: time.Now, of: map[peer.Caller]*quota{}}
}

// quota is that of one certificate. Its lock is for its connections too.
type quota struct {
	mu    sync.Mutex
	conns map[*conn]bool
	held  int
}

// connect returns a connection of a peer that counts for its certificate until it is closed.
func (q *quotas) connect(raw net.Conn, by peer.Caller) net.Conn {
	c := &conn{Conn: raw, from: q, by: by, streams: map[uint32]*unfinished{}}
	c.received.preface = prefaceBytes
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.quota = q.of[by]; c.quota == nil {
		c.quota = &quota{conns: map[*conn]bool{}}
		q.of[by] = c.quota
	}
	c.quota.mu.Lock()
	defer c.quota.mu.Unlock()
	c.quota.conns[c] = true
	return c
}

// forget takes a connection that is closed out.
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

// sweep cuts connections with a message that should be whole.
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

// keep cuts connections, those that hold the most first, until the rest is within the bound:
// so an honest node goes on while another of its site goes too far.
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

// tell writes down which connections were cut. No lock is held, as the disk may be slow.
func (q *quotas) tell(cut []*conn, reason string, why error) {
	for _, c := range cut {
		q.metrics.Cut(reason, 1)
		q.audit.Refusal(c.by, why, auditlog.Entry{Remote: c.RemoteAddr().String()})
	}
}
