package service

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/parts"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// partTimeout bounds the wait for the next part of a round: 1 MiB in this time is less than
// 150 kbit/s.
const partTimeout = time.Minute

type students struct {
	conclavev1.UnimplementedStudentServiceServer
	Options
	uploads *peer.Uploads
}

// OpenRun registers a run or finds it again.
func (s *students) OpenRun(ctx context.Context, q *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
	r, err := s.openRun(ctx, q)
	return r, s.refused(ctx, err,
		auditlog.Entry{Method: "OpenRun", Dataset: q.GetSpec().GetDataset(), Run: q.GetSpec().GetName()})
}

func (s *students) openRun(ctx context.Context, q *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
	run, err := spec.New(q.GetSpec())
	if err != nil {
		return nil, err
	}
	session, claim := peer.SessionOf(ctx), claimOf(ctx)
	student := session.Identity.Name
	if claim != "" { // of the student who submitted the run
		student = ""
	}
	raw, err := s.acceptable(run, student)
	if err != nil {
		return nil, err
	}
	r, err := s.Rounds.Open(ctx, session, claim, run, raw)
	if err != nil {
		return nil, err
	}
	r.Aggregator = s.Name
	return r, nil
}

// acceptable returns the bytes of a spec as they are kept, if a run may be opened or queued
// with it now, by a student or, where that is empty, for one who was let in before.
func (o *Options) acceptable(run *spec.Spec, student string) ([]byte, error) {
	d, err := o.Rounds.Dataset(run.PB.GetDataset())
	if err != nil {
		return nil, err
	}
	if student != "" && !d.Students.Has(student) {
		return nil, fault.Deniedf("student %q may not open runs on dataset %q; the aggregator's configuration lists "+
			"those that may (datasets, students)", student, d.Record.Name)
	}
	if err := checkRun(run, d.Record, o.AllowCoin); err != nil {
		return nil, err
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(run.PB)
	if err != nil {
		return nil, err
	}
	return raw, o.Audit.Check()
}

func checkRun(run *spec.Spec, d coordinator.Dataset, allowCoin bool) error {
	name := run.PB.GetName()
	switch {
	case run.PB.GetSchemaSha256() != d.SchemaSHA256:
		return fault.Refusedf("run %q has schema %s, dataset %q has %s; use the same schema file everywhere",
			name, run.PB.GetSchemaSha256(), d.Name, d.SchemaSHA256)
	case run.PB.GetUnit() != d.Unit:
		return fault.Refusedf("run %q protects unit %q, dataset %q unit %q; set the same unit everywhere",
			name, run.PB.GetUnit(), d.Name, d.Unit)
	case run.PB.GetCoinVotes() && !allowCoin:
		return fault.Refusedf("run %q wants coin votes, the baseline of local runs; open it without coin_votes", name)
	case run.Budget.Delta >= d.Budget.Delta && run.Budget.Epsilon > d.Budget.Epsilon:
		return fault.Refusedf("run %q wants epsilon %v, dataset %q has a budget of %v in all; lower the run's epsilon",
			name, run.Budget.Epsilon, d.Name, d.Budget.Epsilon)
	}
	return nil
}

// Ask takes a round and waits for its release.
func (s *students) Ask(stream conclavev1.StudentService_AskServer) error {
	ctx := stream.Context()
	session := peer.SessionOf(ctx)
	p, size, err := s.receiveRound(stream)
	if err != nil {
		s.Metrics.Rounds.Refused(fault.Reason(err))
		return s.refused(ctx, err, auditlog.Entry{Method: "Ask"})
	}
	e, release, err := s.Rounds.Enter(ctx, p, claimOf(ctx))
	s.uploads.Give(session.Identity.Name, size)
	if err != nil {
		s.Log.Warn("round refused", zap.String("run", fault.Printable(p.Key.Run)), zap.Uint64("round", p.Key.Number),
			zap.Error(err))
		s.Metrics.Rounds.Refused(fault.Reason(err))
		return s.refused(ctx, err, auditlog.Entry{Method: "Ask", Run: p.Key.Run, Round: &p.Key.Number})
	}
	if e != nil {
		defer e.Leave()
		release, err = e.Await(ctx, func(now *conclavev1.Progress) error {
			return stream.Send(&conclavev1.AskResponse{Message: &conclavev1.AskResponse_Progress{Progress: now}})
		})
		if err != nil {
			return err
		}
	}
	if e == nil || e.Asker() != session.Caller { // the line of the release names another
		s.Metrics.Rounds.Repeated()
		err := s.Audit.Write(session.Caller, auditlog.Entry{
			Event: auditlog.Repeated, Run: p.Key.Run, Round: &p.Key.Number,
			Charge: auditlog.Charge{LedgerHash: release.GetLedgerHash()},
		})
		if err != nil {
			return peer.ErrAudit
		}
	}
	messages, err := parts.OfRelease(release)
	for _, m := range messages {
		if err = stream.Send(m); err != nil {
			break
		}
	}
	return err
}

// receiveRound puts a round together. Its size is set aside from what the student may have
// under way, and is the caller's to give back.
func (s *students) receiveRound(stream conclavev1.StudentService_AskServer) (p *payload.Payload, size int, err error) {
	student := peer.SessionOf(stream.Context()).Identity.Name
	var a payload.Assembly
	defer func() {
		if err != nil {
			s.uploads.Give(student, a.Size())
		}
	}()
	done := make(chan struct{})
	defer close(done)
	in, ended := make(chan *conclavev1.AskRequest), make(chan error, 1)
	s.Lifetime.Streams.Go(func() { ended <- transport.Receive(stream, in, done) })
	timeout := time.NewTimer(partTimeout)
	defer timeout.Stop()
	var first *conclavev1.AskRequest
	for !a.Complete() {
		var m *conclavev1.AskRequest
		select {
		case m = <-in:
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				parts, of := a.Progress()
				return nil, 0, fault.Invalidf("the stream ended after %d of %d parts of the round", parts, of)
			}
			return nil, 0, transport.Broken(err)
		case <-timeout.C:
			return nil, 0, fault.Invalidf("no part of the round within %v", partTimeout)
		case <-s.Lifetime.Draining().Done():
			return nil, 0, context.Cause(s.Lifetime.Draining())
		}
		timeout.Reset(partTimeout)
		if first == nil {
			first = m
		}
		bytes := len(m.GetPart().GetData())
		if err := s.uploads.Take(student, bytes); err != nil {
			return nil, 0, err
		}
		if err := a.Add(m.GetPart()); err != nil {
			s.uploads.Give(student, bytes)
			return nil, 0, err
		}
	}
	if p, err = a.Payload(); err != nil {
		return nil, 0, err
	}
	p.Forget, p.Hold = first.GetForget(), first.GetHold()
	if p.Forget > p.Key.Number {
		return nil, 0, fault.Invalidf("round %d of run %q forgets rounds below %d; it cannot forget itself",
			p.Key.Number, p.Key.Run, p.Forget)
	}
	return p, a.Size(), nil
}

// CloseRun ends a run.
func (s *students) CloseRun(ctx context.Context, q *conclavev1.CloseRunRequest) (*conclavev1.CloseRunResponse, error) {
	head, err := s.Rounds.Close(ctx, peer.SessionOf(ctx), claimOf(ctx), q.GetRun())
	if err != nil {
		return nil, s.refused(ctx, err, auditlog.Entry{Method: "CloseRun", Run: q.GetRun()})
	}
	s.Queue.Poke()
	return &conclavev1.CloseRunResponse{LedgerHead: head}, nil
}

// ReadLedger streams the ledger of a run's dataset.
func (s *students) ReadLedger(q *conclavev1.ReadLedgerRequest,
	stream conclavev1.StudentService_ReadLedgerServer) error {
	ctx := stream.Context()
	d, opener, err := s.Rounds.DatasetOf(ctx, q.GetRun())
	if err != nil {
		return err
	}
	if err := s.Queue.MayRead(q.GetRun(), opener, peer.SessionOf(ctx).Identity); err != nil {
		return s.refused(ctx, err, auditlog.Entry{Method: "ReadLedger", Run: q.GetRun()})
	}
	entries, err := s.Store.Ledger(ctx, d.Record.Name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		line, err := entry.Canonical()
		if err != nil {
			return err
		}
		if err := stream.Send(&conclavev1.ReadLedgerResponse{Entry: line}); err != nil {
			return err
		}
	}
	return nil
}
