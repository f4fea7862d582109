package aggregator

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/ledger"
)

// What stands here are names by which files of this package that are still to move call what
// has moved already.

type (
	standing = peer.Session
	nodeID   = peer.ID
	encoded  = peer.Encoded
	caller   = peer.Caller
)

var (
	invalidf     = fault.Invalidf
	refusedf     = fault.Refusedf
	unavailablef = fault.Unavailablef
	faultf       = fault.Errorf
	oversizedf   = fault.Oversizedf
	outOfRangef  = fault.OutOfRangef
	overBudget   = fault.OverBudget
	word         = fault.Word
	reason       = fault.Reason
	errStopping  = fault.ErrStopping
	errAudit     = peer.ErrAudit
)

// ErrLeadershipLost ends Serve when another aggregator has taken over, when etcd was away for
// longer than the lease lasts, or when the aggregator gave the lead away because it could let
// nobody in.
var ErrLeadershipLost = fault.ErrLeadershipLost

// serverMetrics are metrics as this package's files call them.
type serverMetrics struct {
	*metrics.Metrics
	ended    endedMetric
	repeated repeatedMetric
}

type endedMetric struct{ rounds metrics.Rounds }

func (m endedMetric) WithLabelValues(reason string) interface{ Inc() } {
	return incFunc(func() { m.rounds.Ended(reason) })
}

type incFunc func()

func (f incFunc) Inc() { f() }

type repeatedMetric struct{ rounds metrics.Rounds }

func (m repeatedMetric) Inc() { m.rounds.Repeated() }

// charged counts a release. The time of a fit is kept back: the number of its passes depends
// on the records.
func (m *serverMetrics) charged(e *execution, entry ledger.Entry) {
	m.Rounds.Released(e.dataset.record.Name, entry.Kind)
	if _, passes := e.question.(gatherer); !passes {
		m.Rounds.Took(entry.Kind, time.Since(e.began))
	}
}

func (s *Server) audit(by caller, e auditlog.Entry) error { return s.auditLog.Write(by, e) }

func (s *Server) auditRefusal(by caller, err error, e auditlog.Entry) { s.auditLog.Refusal(by, err, e) }

func callerOf(ctx context.Context) caller { return peer.SessionOf(ctx).Caller }

// maxMessageBytes is what gRPC takes.
const maxMessageBytes = transport.MaxMessageBytes

// marshalStable gives the one serialized form that is stored and hashed.
func marshalStable(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func revokedVoice(nodes map[*peer.Session]peer.ID) error { return revokedAmong(nodes) }

func (e *execution) disowned() error { return e.revoked() }

// heardBefore adds the contributors to sums that were collected earlier.
func (e *execution) heardBefore(earlier map[*peer.Session]peer.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s, id := range earlier {
		e.participants.contribute(id, s)
	}
}

func (e *execution) allHeard() map[*peer.Session]peer.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.participants.contributors()
}

// lifetime is a server's as others see it.
type lifetime struct{ *Server }

func (l lifetime) Leading() context.Context  { return l.leading }
func (l lifetime) Stopping() <-chan struct{} { return l.stopping }
