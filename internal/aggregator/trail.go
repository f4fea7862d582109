package aggregator

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
)

// errAudit is what students hear while the audit log cannot be written.
var errAudit = unavailablef("the aggregator cannot write its audit log and releases nothing until it can; its operator finds the reason in its log")

// caller is the other side of a call, as the audit log names it.
type caller struct{ name, certificate string }

// callerOf names the peer of a call by its certificate.
func callerOf(ctx context.Context) caller {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return caller{}
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return caller{}
	}
	name, certificate := certs.PeerRecord(info.State)
	return caller{name, certificate}
}

// audit writes a line to the audit log, where there is one.
func (s *Server) audit(by caller, e auditlog.Entry) error {
	e.Peer, e.Certificate = by.name, by.certificate
	err := s.trail.Write(e)
	if err != nil {
		s.metrics.auditFailures.Inc()
	}
	return err
}

// auditRefusal writes why something was refused. What passes by itself, such as a server
// that stops or a peer that went away, is no refusal.
func (s *Server) auditRefusal(by caller, err error, e auditlog.Entry) {
	code := codeOf(err)
	switch code {
	case codes.OK, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return
	}
	e.Event, e.Code, e.Reason = auditlog.Refused, code.String(), err.Error()
	_ = s.audit(by, e) // lost lines are in the log
}

// auditable is errAudit while the audit log cannot be written: then nothing new is
// released.
func (s *Server) auditable() error {
	if s.trail.Check() != nil {
		return errAudit
	}
	return nil
}
