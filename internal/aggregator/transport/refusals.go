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
	// refusalBurst handshakes of each reason at once get a line in the audit log, and then
	// one in refusalEvery: with all reasons some 14,400 lines a day, however often somebody
	// knocks.
	refusalBurst = 10
	refusalEvery = time.Minute
)

// Metrics count what the port does.
type Metrics interface {
	// Refused counts connections refused in the handshake; with 0 it shows the reason.
	Refused(reason string, connections int)
	// Suppressed counts a refusal without a line of its own in the audit log.
	Suppressed()
	// Cut counts connections of peers that were closed for what they hold, or because there are too
	// many; with 0 it shows the reason.
	Cut(reason string, connections int)
	// Begin counts a call until the function that it returns is called with the outcome.
	Begin(method string) (end func(error))
}

// refusals counts handshakes that ended, and writes them down as far as there is room.
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

// take uses up a line; suppressed is how many were not written since the one before.
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

// flush writes how many refusals were not written, of reasons that may have a line again; of
// all of them at the end.
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
		r.write(peer.Caller{}, auditlog.Entry{Reason: reason + ": connections that have no line of their own",
			Suppressed: n})
	}
}

func (r *refusals) write(by peer.Caller, e auditlog.Entry) {
	e.Event, e.Method, e.Code = auditlog.Refused, "TLS", codes.Unauthenticated.String()
	_ = r.audit.Write(by, e) // lost lines are in the log
}
