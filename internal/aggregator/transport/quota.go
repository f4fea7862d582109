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

// mostHeld bounds what the connections of one certificate have sent of messages that are not
// whole, or that nobody took. An honest connection sends one message at a time: a part of a
// round or of a sum has 1 MiB, votes have 4 at most. So 60 nodes of a site may be in the middle
// of a part at the same moment, and a student with 60 rounds.
//
// gRPC has no such bound. The window of a connection does not hold a peer up, as each byte is
// given back when it comes; the window of a stream is widened for a message that is longer; and
// a certificate may open many connections, whose number has a bound of its own. Smaller windows
// and messages would bound a stream, and not a certificate. To read no more while too much is held
// would end connections too, as pings wait behind, and rather the honest ones.
const mostHeld = 64 << 20

const (
	// mostRefused connections of a certificate above its bound are told why, and closed refusedFor
	// later; more of them are closed at once.
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
	errQuota = fault.Errorf(codes.ResourceExhausted, "the certificate's connections hold more than %d bytes of "+
		"messages that are not whole or were not asked for; this one held the most of them", mostHeld)
	errStopped = fault.Errorf(codes.Aborted, "a message stopped half sent: it was not whole within %v "+
		"and as much for each MiB", eachMiB)
)

// quotas are what peers hold of the port's memory, by certificate.
type quotas struct {
	most    int // connections of one certificate
	metrics Metrics
	audit   peer.AuditLog
	now     func() time.Time

	mu sync.Mutex
	of map[peer.Caller]*quota // of those that are connected
}

func newQuotas(most int, metrics Metrics, audit peer.AuditLog) *quotas {
	for _, reason := range []string{overQuota, stopped, tooMany} {
		metrics.Cut(reason, 0)
	}
	return &quotas{most: most, metrics: metrics, audit: audit, now: time.Now, of: map[peer.Caller]*quota{}}
}

// quota is that of one certificate. Its lock is for its connections too.
type quota struct {
	mu    sync.Mutex
	conns map[*conn]bool
	held  int
}

// connect returns a connection of a peer that counts for its certificate until it is closed. Of one
// that has too many it refuses all calls, with words for the peer, and is closed soon.
func (q *quotas) connect(raw net.Conn, by peer.Caller) (*conn, error) {
	c := &conn{Conn: raw, from: q, by: by, streams: map[uint32]*unfinished{}}
	c.received.preface = prefaceBytes
	open := q.add(c)
	if open <= q.most {
		return c, nil
	}
	why := fault.TooManyf("the certificate of %s has %d connections to the aggregator, the most that one may "+
		"have (max_connections); close some, use several certificates, or have an operator raise max_connections in "+
		"the aggregator's configuration", by.Name, q.most)
	q.tell([]*conn{c}, tooMany, why)
	if open > q.most+mostRefused {
		q.forget(c)
		return nil, why
	}
	c.quota.mu.Lock()
	c.refused = status.Error(codes.Unavailable, why.Error()) // a node, or a run, tries again and is not over
	c.quota.mu.Unlock()
	time.AfterFunc(refusedFor, func() { c.Close() })
	return c, nil
}

// add counts a connection for its certificate, and returns how many that has.
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

// tell writes down which connections were cut, or refused. No lock is held, as the disk may be slow.
func (q *quotas) tell(cut []*conn, reason string, why error) {
	for _, c := range cut {
		q.metrics.Cut(reason, 1)
		q.audit.Refusal(c.by, why, auditlog.Entry{Remote: c.RemoteAddr().String()})
	}
}
