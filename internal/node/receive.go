package node

import (
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/runspec"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// receive puts received messages into the inbox until the stream ends, and returns why it ended.
func (n *Node) receive(stream workStream, in *inbox) error {
	var parts assembly
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Unavailable, "the aggregator closed the stream")
		}
		if err != nil {
			return err
		}
		if err := n.dispatch(m, &parts, in); err != nil {
			return err
		}
	}
}

// end records that runs have ended in the dataset's ledger: nothing more is answered in them, and their stored data
// is removed.
func (n *Node) end(runs []string) error {
	if err := n.policy.end(runs); err != nil {
		return err
	}
	for _, run := range runs {
		n.masks.over(run)
		if !runspec.IsName(run) { // it would be part of a path, and nothing is stored for it
			continue
		}
		if err := question.RemoveRun(n.cfg.State, run); err != nil { // a leftover only costs disk space
			n.log.Warn("could not remove the state of an ended run", zap.String("run", run), zap.Error(err))
		}
	}
	return nil
}

// dispatch handles one message.
func (n *Node) dispatch(m *conclavev1.WorkResponse, parts *assembly, in *inbox) error {
	switch {
	case m.GetWelcome() != nil:
		if err := n.manifest.store(); err != nil {
			return err
		}
		welcome := m.GetWelcome()
		if err := n.ledger.check(welcome.GetLedger()); err != nil {
			return err
		}
		n.ledger.save(n.log)
		n.watch.metrics.welcome()
		_ = n.audit(auditlog.Entry{Event: auditlog.Joined, Teachers: uint32(n.cfg.Teachers)})
		n.log.Info("joined", zap.String("aggregator", welcome.GetAggregator()), zap.Int("teachers", n.cfg.Teachers))
	case m.GetEntries() != nil:
		return n.ledger.follow(n.cfg.Dataset, m.GetEntries().GetLines(), n.end)
	case m.GetPermit() != nil:
		p := m.GetPermit()
		return in.putBeside(task{
			run: p.Run, round: p.Round, attempt: m.Attempt, permit: p, spec: announcedBy(m.GetTerms()),
		})
	case m.GetPart() != nil:
		p := m.GetPart()
		if p.Part == 0 {
			parts.terms, parts.masked = m.GetTerms(), m.GetMasked()
			if err := fewMembers(len(parts.masked.GetMembers())); err != nil {
				*parts = assembly{run: p.Run, round: p.Round, broken: true}
				return in.put(task{run: p.Run, round: p.Round, attempt: m.Attempt, refusal: err})
			}
		}
		q, err := parts.add(p)
		if q == nil && err == nil {
			return nil
		}
		return in.put(task{
			run: p.Run, round: p.Round, attempt: m.Attempt, question: q, masked: parts.masked,
			spec: announcedBy(parts.terms), refusal: err,
		})
	case m.GetSurvivors() != nil:
		s := m.GetSurvivors()
		return in.putBeside(opening(s.Run, s.Round, m, len(s.Sites)))
	case m.GetAgreement() != nil:
		a := m.GetAgreement()
		return in.putBeside(opening(a.Run, a.Round, m, len(a.Tags)))
	case m.GetSign() != nil:
		t := task{sign: m.GetSign()}
		if !n.ledger.endsWith(t.sign) {
			t.refusal = errOtherHead
		}
		return in.putBeside(t)
	case m.GetWithdraw() != nil:
		w := m.GetWithdraw()
		if w.Over {
			in.over(w.Run)
			n.policy.forget(w.Run)
			n.log.Info("run has ended", zap.String("run", w.Run))
			return nil
		}
		in.withdraw(w.Run, w.Round)
		n.watch.metrics.withdrawn.Inc()
		n.log.Info("round continued without this node", zap.String("run", w.Run), zap.Uint64("round", w.Round))
	default:
		n.log.Warn("the aggregator sent an unknown message; update the node")
	}
	return nil
}

// fewMembers refuses more members than a masked run may have.
func fewMembers(n int) error {
	if n > masking.MaxMembers {
		return fmt.Errorf("a masked round of %d members; the maximum is %d", n, masking.MaxMembers)
	}
	return nil
}

// opening checks a message after the answers to a masked round, which names n members.
func opening(run string, round uint64, m *conclavev1.WorkResponse, members int) task {
	t := task{run: run, round: round, attempt: m.Attempt, opens: m}
	if t.refusal = fewMembers(members); t.refusal != nil {
		t.opens = nil
	}
	return t
}
