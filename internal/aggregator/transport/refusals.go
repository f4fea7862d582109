package transport

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
)

const (
	// refusalBurst bounds the handshake refusals of each reason that get an audit line at once; after that, one per
	// refusalEvery. For all reasons together that is some 14,400 lines a day, however many attempts there are.
	refusalBurst = 10
	refusalEvery = time.Minute
)

// Metrics count the port's events.
type Metrics interface {
	// Refused counts connections refused in the handshake; 0 makes the reason visible.
	Refused(reason string, connections int)
	// Suppressed counts a refusal without its own line in the audit log.
	Suppressed()
	// Cut counts connections that were closed because they use too much memory or are too many; 0 makes the reason
	// visible.
	Cut(reason string, connections int)
	// Begin starts a call; the returned function ends it with the outcome.
	Begin(method string) (end func(error))
}

// refusals counts failed handshakes, and logs them within limits.
type refusals struct {
	metrics Metrics
	audit   peer.AuditLog
	now     func() time.Time

	mu     sync.Mutex
	limits map[string]*refusalLimit // by reason
}

// refusalLimit bounds the lines of one reason.
type refusalLimit struct {
	*rate.Limiter
	suppressed uint64 // since the last line
}

func newRefusals(metrics Metrics, audit peer.AuditLog) *refusals {
	r := &refusals{metrics: metrics, audit: audit, now: time.Now, limits: map[string]*refusalLimit{}}
	for _, reason := range tlsconfig.Refusals() {
		r.limits[reason] = &refusalLimit{Limiter: rate.NewLimiter(rate.Every(refusalEvery), refusalBurst)}
		metrics.Refused(reason, 0)
	}
	return r
}

func (r *refusals) add(from net.Addr, err error) {
	reason := tlsconfig.Refusal(err)
	if reason == "" {
		return
	}
	r.metrics.Refused(reason, 1)
	suppressed, ok := r.take(reason)
	if !ok {
		r.metrics.Suppressed()
		return
	}
	name, certificate := tlsconfig.RefusedPeer(err)
	r.write(peer.Caller{Name: name, Certificate: certificate},
		auditlog.Entry{Remote: from.String(), Reason: reason + ": " + err.Error(), Suppressed: suppressed})
}

// take uses up a line; suppressed is how many were omitted since the last one.
func (r *refusals) take(reason string) (suppressed uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.limits[reason]
	if !l.AllowN(r.now(), 1) {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}

// flush logs how many refusals were omitted, for reasons that may have a line again, or at the end for all.
func (r *refusals) flush(end bool) {
	r.mu.Lock()
	due := map[string]uint64{}
	for reason, l := range r.limits {
		if l.suppressed > 0 && (end || l.AllowN(r.now(), 1)) {
			due[reason], l.suppressed = l.suppressed, 0
		}
	}
	r.mu.Unlock()
	for reason, n := range due {
		r.write(peer.Caller{}, auditlog.Entry{Reason: reason + ": connections without a line of their own",
			Suppressed: n})
	}
}

func (r *refusals) write(by peer.Caller, e auditlog.Entry) {
	e.Event, e.Method, e.Code = auditlog.Refused, "TLS", codes.Unauthenticated.String()
	_ = r.audit.Write(by, e) // lost lines are logged
}
