package service

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// helloTimeout bounds the wait for a hello: a stream without one would occupy a handler.
const helloTimeout = 10 * time.Second

// errReplaced ends a stream whose node opened another one.
var errReplaced = fault.Errorf(codes.Aborted,
	"the node opened a newer stream, and a node has only one; give every process its own node name")

// greet waits for the hello, checks it and makes the node live.
func (s *nodes) greet(ctx context.Context, n *peer.Node, in <-chan *conclavev1.WorkRequest,
	ended <-chan error, send round.Send) (*round.Dataset, error) {
	hello, err := s.awaitHello(ctx, n, in, ended)
	if err != nil {
		return nil, err
	}
	d, last, err := s.admit(ctx, hello)
	if fault.Code(err) == codes.Canceled {
		// The stream has ended, perhaps because of what followed the hello.
		select {
		case why := <-ended:
			if fault.KindOf(transport.Broken(why), "") != "" {
				return nil, s.noHello(ctx, transport.Broken(why))
			}
		case <-time.After(brokenTimeout):
		}
	}
	if err != nil {
		s.turnedAway(ctx, hello, err)
		return nil, err
	}
	// On a node's first hello that is the whole ledger, sent as fast as the node reads.
	if _, err := s.Rounds.TellAll(ctx, d, hello.GetLedger().GetSeq(), last.Seq, send); err != nil {
		return nil, err
	}
	welcome, err := peer.Encode(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Welcome{
		Welcome: &conclavev1.Welcome{Aggregator: s.Name, Ledger: round.HeadOf(last)},
	}})
	if err != nil {
		return nil, err
	}
	n.ID = peer.ID{Site: hello.GetSite(), Name: hello.GetNode()}
	n.Teachers = hello.GetTeachers()
	n.Send(welcome) // before the node is live, so that no round comes first
	if err := s.Rounds.Follow(ctx, d, n, last.Seq); err != nil {
		return nil, err
	}
	if old := d.Join(n); old != nil {
		old.Drop(errReplaced)
	}
	s.Log.Info("node joined", zap.String("dataset", d.Record.Name), zap.Stringer("node", n.ID),
		zap.Uint32("teachers", n.Teachers), zap.Uint32("teachers_live", d.Teachers()))
	s.Metrics.Nodes.Joined(d.Record.Name)
	s.Audit.Passage(n.Session.Caller, auditlog.Entry{
		Event: auditlog.Joined, Dataset: d.Record.Name, Node: n.ID.String(), Teachers: n.Teachers,
	})
	return d, nil
}

func (s *nodes) awaitHello(ctx context.Context, n *peer.Node, in <-chan *conclavev1.WorkRequest,
	ended <-chan error) (*conclavev1.Hello, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case m := <-in:
		if hello := m.GetHello(); hello != nil {
			return hello, nil
		}
		return nil, s.noHello(ctx, fault.Rejectf(fault.Protocol, "the first message of a node must be a hello"))
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil, fault.Unavailablef("the stream ended before a hello")
		}
		return nil, s.noHello(ctx, transport.Broken(err))
	case <-timeout.C:
		// The hello may be lost, or the process may have been suspended: the node retries.
		return nil, s.noHello(ctx,
			fault.RejectCodef(fault.Protocol, codes.DeadlineExceeded, "no hello within %v", helloTimeout))
	case <-n.Session.Ended():
		return nil, n.Session.Reason()
	case <-s.Lifetime.Draining().Done():
		return nil, context.Cause(s.Lifetime.Draining())
	}
}

// noHello counts a stream that ended before its hello, if a message caused the end.
func (s *nodes) noHello(ctx context.Context, err error) error {
	if kind := fault.KindOf(err, ""); kind != "" {
		session := peer.SessionOf(ctx)
		s.Metrics.Nodes.Rejected(kind)
		if s.Audit.Refusal(session.Caller, err, auditlog.Entry{}) {
			s.Log.Warn("message rejected", zap.String("site", session.Identity.Name), zap.String("kind", string(kind)),
				zap.Error(err))
		}
	}
	return err
}

// turnedAway counts a node that was refused, and logs why. A banned node gets a line only for its first attempt.
func (s *nodes) turnedAway(ctx context.Context, hello *conclavev1.Hello, err error) {
	session, reason := peer.SessionOf(ctx), fault.Reason(err)
	if d, _ := s.Rounds.Dataset(hello.GetDataset()); d != nil && hello.GetSite() == session.Identity.Name {
		d.Depart(peer.ID{Site: hello.GetSite(), Name: hello.GetNode()}, "it was refused: "+err.Error())
	}
	ban := peer.Banned(err)
	if ban != nil {
		reason = metrics.BannedReason
	}
	s.Metrics.Nodes.Refused(reason)
	if ban != nil && !ban.First {
		return
	}
	if ban != nil {
		s.Metrics.Nodes.Banned()
	}
	level := zapcore.WarnLevel
	if errors.Is(err, coordinator.ErrRollback) {
		level = zapcore.ErrorLevel
	}
	told := s.Audit.Refusal(session.Caller, err, auditlog.Entry{
		Dataset: hello.GetDataset(), Node: hello.GetSite() + "/" + hello.GetNode(), Teachers: hello.GetTeachers(),
	})
	if told || level == zapcore.ErrorLevel {
		s.Log.Log(level, "node refused", zap.String("site", session.Identity.Name),
			zap.String("node", fault.Word(hello.GetNode())), zap.Error(err))
	}
}
