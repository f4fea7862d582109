package aggregator

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// studentService serves students.
type studentService struct {
	conclavev1.UnimplementedStudentServiceServer
	*Server
}

// OpenRun registers a run or finds it again.
func (s *studentService) OpenRun(ctx context.Context, q *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
	r, err := s.openRun(ctx, q)
	if err != nil {
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{Method: "OpenRun", Dataset: q.GetSpec().GetDataset(), Run: q.GetSpec().GetName()})
	}
	return r, err
}

func (s *studentService) openRun(ctx context.Context, q *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
	spec, err := newRunSpec(q.GetSpec())
	if err != nil {
		return nil, err
	}
	d, raw, err := s.acceptable(spec)
	if err != nil {
		return nil, err
	}
	existing, err := s.store.OpenRun(ctx, s.lead, coordinator.Run{
		Name:    spec.pb.GetName(),
		Dataset: d.record.Name,
		Spec:    raw,
		Budget:  spec.budget,
		Plan:    spec.plan,
		By:      peer.SessionOf(ctx).Identity.Name,
		Claim:   claimOf(ctx),
	})
	if err != nil {
		return nil, err
	}
	r, err := s.run(ctx, spec.pb.GetName())
	if err != nil {
		return nil, err
	}
	if err := r.lock(ctx); err != nil {
		return nil, err
	}
	closed := r.closed
	r.unlock()
	record, err := s.store.Run(ctx, spec.pb.GetName())
	if err != nil {
		return nil, err
	}
	s.log.Info("run opened", zap.String("run", spec.pb.GetName()), zap.String("dataset", d.record.Name),
		zap.String("student", peer.SessionOf(ctx).Identity.Name), zap.Bool("existing", existing), zap.Bool("closed", closed),
		zap.Float64("epsilon", spec.budget.Epsilon), zap.Float64("delta", spec.budget.Delta), zap.Uint64("rounds", record.Releases))
	_ = s.audit(callerOf(ctx), auditlog.Entry{Event: auditlog.RunOpened, Dataset: d.record.Name, Run: spec.pb.GetName(), Teachers: spec.pb.GetTeachers()})
	return &conclavev1.OpenRunResponse{
		Aggregator:   s.config.Name,
		TeachersLive: d.Teachers(),
		Rounds:       record.Releases,
		EpsilonSpent: record.EpsilonSpent,
		Closed:       closed,
	}, nil
}

// acceptable returns the dataset of a spec and the spec's bytes as they are kept, if a run
// may be opened or queued with it now.
func (s *Server) acceptable(spec *runSpec) (*dataset, []byte, error) {
	d, err := s.dataset(spec.pb.GetDataset())
	if err != nil {
		return nil, nil, err
	}
	if err := s.checkRun(spec, d.record); err != nil {
		return nil, nil, err
	}
	raw, err := marshalStable(spec.pb)
	if err != nil {
		return nil, nil, err
	}
	return d, raw, s.auditLog.Check()
}

// checkRun checks a spec against its dataset.
func (s *Server) checkRun(spec *runSpec, d coordinator.Dataset) error {
	name := spec.pb.GetName()
	switch {
	case spec.pb.GetSchemaSha256() != d.SchemaSHA256:
		return refusedf("run %q has schema %s, dataset %q has %s; use the same schema file everywhere",
			name, spec.pb.GetSchemaSha256(), d.Name, d.SchemaSHA256)
	case spec.pb.GetUnit() != d.Unit:
		return refusedf("run %q protects unit %q, dataset %q unit %q; set the same unit everywhere",
			name, spec.pb.GetUnit(), d.Name, d.Unit)
	case spec.pb.GetCoinVotes() && !s.options.AllowCoin:
		return refusedf("run %q wants coin votes, the baseline of local runs; open it without coin_votes", name)
	case spec.budget.Delta >= d.Budget.Delta && spec.budget.Epsilon > d.Budget.Epsilon:
		return refusedf("run %q wants epsilon %v, dataset %q has a budget of %v in all; lower the run's epsilon",
			name, spec.budget.Epsilon, d.Name, d.Budget.Epsilon)
	}
	return nil
}

// Ask takes a round and waits for its release.
func (s *studentService) Ask(stream conclavev1.StudentService_AskServer) error {
	by := callerOf(stream.Context())
	p, err := s.receiveRound(stream)
	if err != nil {
		s.metrics.Rounds.Refused(reason(err))
		s.auditRefusal(by, err, auditlog.Entry{Method: "Ask"})
		return err
	}
	e, release, err := s.enter(stream.Context(), p)
	s.uploads.Give(peer.SessionOf(stream.Context()).Identity.Name, p.size)
	if err != nil {
		s.log.Warn("round refused", zap.String("run", fault.Printable(p.key.run)), zap.Uint64("round", p.key.number), zap.Error(err))
		s.metrics.Rounds.Refused(reason(err))
		s.auditRefusal(by, err, auditlog.Entry{Method: "Ask", Run: p.key.run, Round: &p.key.number})
		return err
	}
	if e != nil {
		defer e.detach()
		if release, err = s.await(stream, e); err != nil {
			return err
		}
	}
	if e == nil || e.asker != by { // the line of the release names another
		s.metrics.Rounds.Repeated()
		if s.audit(by, auditlog.Entry{Event: auditlog.Repeated, Run: p.key.run, Round: &p.key.number, LedgerHash: release.GetLedgerHash()}) != nil {
			return errAudit
		}
	}
	return stream.Send(&conclavev1.AskResponse{Message: &conclavev1.AskResponse_Release{Release: release}})
}

// receiveRound puts a round together. Its size is set aside from what the student may have
// under way, and is the caller's to give back.
func (s *studentService) receiveRound(stream conclavev1.StudentService_AskServer) (p *payload, err error) {
	student := peer.SessionOf(stream.Context()).Identity.Name
	var a assembly
	defer func() {
		if err != nil {
			s.uploads.Give(student, a.size)
		}
	}()
	done := make(chan struct{})
	defer close(done)
	in, ended := make(chan *conclavev1.AskRequest), make(chan error, 1)
	s.streams.Go(func() { ended <- transport.Receive(stream, in, done) })
	timeout := time.NewTimer(partTimeout)
	defer timeout.Stop()
	var forget uint64
	var hold bool
	for !a.complete() {
		var m *conclavev1.AskRequest
		select {
		case m = <-in:
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil, invalidf("the stream ended after %d of %d parts of the round", len(a.parts), a.total)
			}
			return nil, transport.Broken(err)
		case <-timeout.C:
			return nil, invalidf("no part of the round within %v", partTimeout)
		case <-s.draining.Done():
			return nil, context.Cause(s.draining)
		}
		timeout.Reset(partTimeout)
		if len(a.parts) == 0 {
			forget, hold = m.GetForget(), m.GetHold()
		}
		if err := s.uploads.Take(student, len(m.GetPart().GetData())); err != nil {
			return nil, err
		}
		if err := a.add(m.GetPart()); err != nil {
			s.uploads.Give(student, len(m.GetPart().GetData()))
			return nil, err
		}
	}
	if forget > a.key.number {
		return nil, invalidf("round %d of run %q forgets rounds below %d; it cannot forget itself", a.key.number, a.key.run, forget)
	}
	if p, err = a.payload(); err != nil {
		return nil, err
	}
	p.forget, p.hold, p.size = forget, hold, a.size
	return p, nil
}

// await reports progress until the round is over. Of a round that is over soon nothing is
// reported: each report costs as much as the answer of a node.
func (s *studentService) await(stream grpc.ServerStreamingServer[conclavev1.AskResponse], e *execution) (*conclavev1.Release, error) {
	soon := time.NewTimer(progressDelay)
	defer soon.Stop()
	select {
	case <-e.done:
		return e.release, e.err
	case <-soon.C:
	case <-stream.Context().Done():
		return nil, context.Cause(stream.Context())
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		progress, changed := e.watch()
		if err := stream.Send(&conclavev1.AskResponse{Message: &conclavev1.AskResponse_Progress{Progress: progress}}); err != nil {
			return nil, err
		}
		select {
		case <-e.done:
			return e.release, e.err
		case <-changed:
		case <-tick.C:
		case <-stream.Context().Done():
			return nil, context.Cause(stream.Context())
		}
	}
}

// enter decides about a round: it is released already (the release is
// returned), being answered (its execution, attached to), due (a new
// execution), or refused.
func (s *Server) enter(ctx context.Context, p *payload) (*execution, *conclavev1.Release, error) {
	r, err := s.run(ctx, p.key.run)
	if err != nil {
		return nil, nil, err
	}
	if err := r.lock(ctx); err != nil {
		return nil, nil, err
	}
	defer r.unlock()

	if open := r.openExecution(); open != nil && open.key == p.key && open.digest == p.digest {
		open.attach()
		return open, nil, nil
	}
	release, record, err := s.stored(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	if release != nil {
		if p.hold && r.openExecution() == nil {
			e, err := s.collectAgain(ctx, r, p, release)
			return e, release, err
		}
		return nil, release, nil
	}
	// A student that restarted may ask the open round otherwise, or may have
	// gone back; then the round that nobody waits for makes room. It may have
	// been charged meanwhile.
	if r.openExecution() != nil {
		if err := r.settle(ctx); err != nil {
			return nil, nil, err
		}
		if release, record, err = s.stored(ctx, p); release != nil || err != nil {
			return nil, release, err
		}
	}
	e, err := s.start(ctx, r, record, p)
	return e, nil, err
}

// start checks a round that was never released and begins to answer it; record is its
// run as etcd has it. Callers hold the run's turn.
func (s *Server) start(ctx context.Context, r *run, record coordinator.Run, p *payload) (*execution, error) {
	switch {
	case p.key.number < record.Releases: // and nothing is stored
		return nil, &coordinator.ForgottenError{Run: p.key.run, Round: p.key.number}
	case r.closed:
		return nil, refusedf("run %q is closed; only its released rounds can be asked again: start its student again, and it makes its results of those", p.key.run)
	case p.key.number > record.Releases:
		return nil, refusedf("round %d of run %q is asked and round %d is due", p.key.number, p.key.run, record.Releases)
	}
	if err := s.queue.MayAsk(p.key.run, claimOf(ctx)); err != nil {
		return nil, err
	}
	if err := s.auditLog.Check(); err != nil {
		return nil, err
	}
	q, err := parseQuestion(p, r, s.options.AllowCoin)
	if err != nil {
		return nil, err
	}
	if p.terms, err = s.terms(ctx, r, p); err != nil {
		return nil, err
	}
	attempt := s.attempts.Add(1)
	parts, err := p.encode(attempt)
	if err != nil {
		return nil, err
	}
	e := newExecution(p, attempt, r.spec, r.dataset, q, parts)
	if err := r.dataset.reserve(ctx, s.store, s.lead, e); err != nil {
		return nil, err
	}
	e.asker = callerOf(ctx)
	s.trace(ctx, e)
	if err := s.launch(e); err != nil {
		return nil, err
	}
	r.current = e
	return e, nil
}

// CloseRun ends a run.
func (s *studentService) CloseRun(ctx context.Context, q *conclavev1.CloseRunRequest) (*conclavev1.CloseRunResponse, error) {
	r, err := s.closeRun(ctx, q)
	if err != nil {
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{Method: "CloseRun", Run: q.GetRun()})
	}
	return r, err
}

func (s *studentService) closeRun(ctx context.Context, q *conclavev1.CloseRunRequest) (*conclavev1.CloseRunResponse, error) {
	r, err := s.run(ctx, q.GetRun())
	if err != nil {
		return nil, err
	}
	if err := r.lock(ctx); err != nil {
		return nil, err
	}
	defer r.unlock()
	if err := s.queue.MayAsk(q.GetRun(), claimOf(ctx)); err != nil {
		return nil, err
	}
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	head, err := s.store.CloseRun(ctx, s.lead, q.GetRun())
	if err != nil {
		return nil, err
	}
	s.runClosed(r)
	s.queue.Poke()
	s.log.Info("run closed", zap.String("run", q.GetRun()), zap.String("ledger_head", head))
	_ = s.audit(callerOf(ctx), auditlog.Entry{Event: auditlog.RunClosed, Dataset: r.dataset.record.Name, Run: q.GetRun(), LedgerHash: head})
	return &conclavev1.CloseRunResponse{LedgerHead: head}, nil
}

// ReadLedger streams the ledger of a run's dataset.
func (s *studentService) ReadLedger(q *conclavev1.ReadLedgerRequest, stream conclavev1.StudentService_ReadLedgerServer) error {
	ctx := stream.Context()
	r, err := s.run(ctx, q.GetRun())
	if err != nil {
		return err
	}
	entries, err := s.store.Ledger(ctx, r.dataset.record.Name)
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
