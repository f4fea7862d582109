package node

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// protocol is the version of the wire contract this node speaks.
const protocol = 3

type workStream = conclavev1.TeacherService_WorkClient

// work is one life of the stream. One goroutine receives, one sends, and the
// caller's answers. All have ended when work returns, which for a round under
// way is after its teachers are trained and saved.
//
// When told ends it works on what is in hand for as long as it may, and leaves.
func (n *Node) work(told context.Context, client conclavev1.TeacherServiceClient) (err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(told))
	var others sync.WaitGroup
	defer func() {
		cancel()
		others.Wait()
		n.left(err)
	}()
	others.Go(func() { n.bound(ctx, told, cancel) })
	others.Go(func() { n.keepMark(ctx) })
	stream, err := client.Work(ctx)
	if err != nil {
		return err
	}
	n.meet(stream)
	in, out := newInbox(), make(chan *conclavev1.WorkRequest, 1)
	ended := make(chan error, 1)
	out <- n.hello()
	again, stop := n.looksAgain()
	defer stop()
	others.Go(func() { send(ctx, stream, out) })
	others.Go(func() { ended <- n.receive(ctx, stream, in) })
	for {
		select {
		case <-in.filled:
		case <-again:
			for _, m := range n.decided() {
				select {
				case out <- m:
				case err := <-ended:
					return err
				}
			}
		case err := <-ended:
			return err
		case <-told.Done():
			return context.Cause(told)
		}
		for t, ok := in.take(); ok; t, ok = in.take() {
			select {
			case out <- n.reply(t):
				n.worked = true
			case err := <-ended:
				return err
			}
			if told.Err() != nil {
				// The end of the stream comes after the answer, and the aggregator's
				// after it has both.
				close(out)
				return <-ended
			}
		}
	}
}

// bound ends a stream when the node is told to stop: at once where it is not welcome
// yet, else after the time that a round in hand may take.
func (n *Node) bound(ctx, told context.Context, cancel func()) {
	select {
	case <-told.Done():
	case <-ctx.Done():
		return
	}
	defer cancel()
	if !n.watched.connected.Load() {
		return
	}
	patience := time.NewTimer(n.cfg.Drain)
	defer patience.Stop()
	select {
	case <-patience.C:
	case <-ctx.Done():
	}
}

// left notes that the stream is over.
func (n *Node) left(why error) {
	if !n.watched.connected.Swap(false) {
		return
	}
	e := auditlog.Entry{Event: auditlog.Left}
	if why != nil {
		e.Reason = status.Convert(why).Message()
	}
	_ = n.audit(e)
}

// send writes what is in out until ctx ends, the stream breaks, or out is closed: then
// it ends the stream from this side. The reason of
// a break is for receive to find.
func send(ctx context.Context, stream workStream, out <-chan *conclavev1.WorkRequest) {
	for {
		select {
		case m, ok := <-out:
			if !ok {
				_ = stream.CloseSend()
				return
			}
			if stream.Send(m) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// receive puts what comes down the stream into the inbox until the stream ends,
// and returns why it did.
func (n *Node) receive(ctx context.Context, stream workStream, in *inbox) error {
	var parts assembly
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Unavailable, "the aggregator closed the stream")
		}
		if err != nil {
			return err
		}
		if err := n.dispatch(ctx, m, &parts, in); err != nil {
			return err
		}
	}
}

// dispatch puts one message to its use.
func (n *Node) dispatch(ctx context.Context, m *conclavev1.WorkResponse, parts *assembly, in *inbox) error {
	switch {
	case m.GetWelcome() != nil:
		if err := n.keepManifest(); err != nil {
			return err
		}
		if err := n.ledger.check(m.GetWelcome().GetLedger()); err != nil {
			return err
		}
		n.ledger.told(m.GetWelcome().GetLedger())
		n.writeMark()
		n.watched.connected.Store(true)
		n.watched.welcomed.Store(true)
		n.watched.joined.Inc()
		_ = n.audit(auditlog.Entry{Event: auditlog.Joined, Teachers: uint32(n.cfg.Teachers)})
		n.log.Info("joined", zap.String("aggregator", m.GetWelcome().Aggregator), zap.Int("teachers", n.cfg.Teachers))
	case m.GetPart() != nil:
		p := m.GetPart()
		if p.Part == 0 {
			parts.terms = m.GetTerms()
			n.ledger.told(parts.terms.GetLedger())
		}
		q, err := parts.add(p)
		if q == nil && err == nil {
			return nil
		}
		return in.put(ctx, task{run: p.Run, round: p.Round, attempt: m.Attempt, question: q, terms: parts.terms, refusal: err})
	case m.GetWithdraw() != nil:
		w := m.GetWithdraw()
		if w.Over {
			n.ledger.told(w.Ledger)
			n.forgetWaiting(w.Run)
			n.log.Info("run is over", zap.String("run", w.Run))
			return nil
		}
		in.withdraw(w.Run, w.Round)
		n.watched.withdrawn.Inc()
		n.log.Info("round went on without this node", zap.String("run", w.Run), zap.Uint64("round", w.Round))
	default:
		n.log.Warn("the aggregator sent a message that this node does not know; update the node")
	}
	return nil
}

// reply answers a task, or refuses it with the reason.
func (n *Node) reply(t task) *conclavev1.WorkRequest {
	err := t.refusal
	if err == nil {
		err = n.ledger.kept()
	}
	if err == nil {
		err = n.permit(t)
	}
	if err == nil {
		start, purpose := time.Now(), string(KindOf(t.question.round))
		var span *tracing.Span
		passes := n.kinds[purpose].Passes
		if !passes { // how many passes it takes depends on all sites' records
			_, span = n.tracer.Begin(context.Background(), "answer", tracing.About(n.cfg.Dataset, t.run, t.round, purpose)...)
		}
		var answer *conclavev1.WorkRequest
		var charged *sitepolicy.Entry
		if answer, err = n.answer(t.question); err == nil {
			charged, err = n.charge(t)
		}
		if err == nil {
			err = n.note(asking{t.run, t.round, purpose, passes}, time.Since(start), charged)
		}
		if err != nil {
			span.End("refused")
		} else {
			span.End("")
			n.log.Debug("answered", zap.String("run", t.run), zap.Uint64("round", t.round), zap.Duration("took", time.Since(start)))
			answer.Attempt = t.attempt
			return answer
		}
	}
	refusal := n.refusal(t, err)
	if about := []zap.Field{zap.String("run", t.run), zap.Uint64("round", t.round), zap.Error(err)}; refusal.Waiting {
		n.log.Warn("round waits for this site", about...)
	} else {
		n.log.Error("round refused", about...)
		n.watched.refused.Inc()
	}
	_ = n.audit(auditlog.Entry{Event: auditlog.Refused, Run: t.run, Round: &t.round, Reason: refusal.Reason})
	return &conclavev1.WorkRequest{Attempt: t.attempt, Message: &conclavev1.WorkRequest_Refusal{Refusal: refusal}}
}

// note counts an answer and writes it down before it leaves; an answer that cannot be
// written down does not leave. Passes after the first are not written: their
// number depends on all sites' records.
func (n *Node) note(a asking, took time.Duration, charged *sitepolicy.Entry) error {
	if first := n.watched.count(a, took); !first && a.passes && n.trail.Check() == nil {
		return nil
	}
	e := auditlog.Entry{Event: auditlog.Answered, Run: a.run, Round: &a.round, Purpose: a.purpose, Teachers: uint32(n.cfg.Teachers)}
	if charged != nil { // in the site's own ledger
		e.Events, e.EpsilonSpent, e.LedgerSeq, e.LedgerHash = charged.Events, charged.EpsilonSpent, charged.Seq, charged.Hash
	}
	if n.audit(e) != nil {
		return errAudit
	}
	return nil
}

func (n *Node) hello() *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: helloOf(n.cfg, n.site.Schema, n.manifest, n.ledger)}}
}
