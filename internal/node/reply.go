package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// reply answers a task, or refuses it with the reason.
func (n *Node) reply(t task) *conclavev1.WorkRequest {
	switch {
	case t.opens != nil:
		return n.open(t)
	case t.sign != nil:
		return n.countersign(t)
	}
	request := n.policy.request(t)
	attempt, err := n.masks.begin(t, n.kinds, n.site.Public, n.opening(t, request))
	if attempt != nil {
		request.Question = attempt.name() // earlier charges do not cover it
	}
	if err == nil {
		err = n.mayWork(t, request)
	}
	if err == nil && t.permit != nil {
		permitted := &conclavev1.Permitted{Run: t.run, Round: t.round}
		if permitted.Key, err = n.masks.key(t.spec); err == nil {
			n.policy.permits(request)
			return &conclavev1.WorkRequest{Attempt: t.attempt, Message: &conclavev1.WorkRequest_Permitted{
				Permitted: permitted,
			}}
		}
	}
	if err == nil {
		start, purpose := time.Now(), t.question.round.GetKind()
		var span *tracing.Span
		passes := n.kinds[purpose].Passes > 0
		if !passes {
			about := tracing.About(n.cfg.Dataset, t.run, t.round, purpose)
			_, span = n.watch.tracer.Begin(context.Background(), "answer", about...)
		}
		var answer *conclavev1.WorkRequest
		var charged *sitepolicy.Entry
		charge := sync.OnceValues(func() (*sitepolicy.Entry, error) {
			if attempt != nil { // its opening is charged
				return nil, n.policy.permit(request)
			}
			return n.policy.charge(request)
		})
		answer, err = n.within(t, attempt, func() error { _, err := charge(); return err })
		if err == nil {
			charged, err = charge()
		}
		if err == nil {
			err = attempt.mask(answer)
		}
		if err == nil {
			err = n.note(asking{t.run, t.round, purpose, passes}, time.Since(start), charged, proto.Size(answer))
		}
		if err != nil {
			span.End("refused")
		} else {
			span.End("")
			n.log.Debug("answered",
				zap.String("run", t.run), zap.Uint64("round", t.round), zap.Duration("took", time.Since(start)))
			answer.Attempt = t.attempt
			return answer
		}
	}
	return n.refuse(t, n.policy.refusal(request, err), err)
}

// refuse answers a task with a refusal, and logs the reason at the site.
func (n *Node) refuse(t task, refusal *conclavev1.Refusal, err error) *conclavev1.WorkRequest {
	if about := []zap.Field{zap.String("run", t.run), zap.Uint64("round", t.round), zap.Error(err)}; refusal.Waiting {
		n.log.Warn("round waits for this site", about...)
	} else {
		n.log.Error("round refused", about...)
		n.watch.metrics.refused.Inc()
	}
	_ = n.audit(auditlog.Entry{Event: auditlog.Refused, Run: t.run, Round: &t.round, Reason: refusal.Reason})
	return &conclavev1.WorkRequest{Attempt: t.attempt, Message: &conclavev1.WorkRequest_Refusal{Refusal: refusal}}
}

// mayWork returns nil, or why the node does not work on a round. It applies to rounds and permits alike.
func (n *Node) mayWork(t task, r sitepolicy.Request) error {
	if t.refusal != nil {
		return t.refusal
	}
	if err := n.mayLeave(); err != nil { // the answer would be charged and then stay here
		return err
	}
	if err := n.able(t); err != nil { // before people are asked to approve it
		return err
	}
	return n.policy.permit(r)
}

// mayLeave returns nil, or why nothing at all may leave.
func (n *Node) mayLeave() error {
	if err := n.ledger.saveError(); err != nil {
		return err
	}
	if n.watch.auditLog.Check() != nil {
		return errAudit
	}
	return nil
}

// note counts an answer and logs it before it leaves; an answer that cannot be logged does not leave. Passes after
// the first are not logged.
func (n *Node) note(a asking, took time.Duration, charged *sitepolicy.Entry, bytes int) error {
	if first := n.watch.metrics.count(a, took); !first && a.passes && n.watch.auditLog.Check() == nil {
		return nil
	}
	return n.write(auditlog.Answered, a, charged, bytes)
}

// write logs what is about to leave, and its charge in the site's own ledger.
func (n *Node) write(event string, a asking, charged *sitepolicy.Entry, bytes int) error {
	e := auditlog.Entry{
		Event: event, Run: a.run, Round: &a.round, Purpose: a.purpose, Teachers: uint32(n.cfg.Teachers), Bytes: bytes,
	}
	if charged != nil {
		e.Events, e.EpsilonSpent = charged.Events, charged.EpsilonSpent
		e.LedgerSeq, e.LedgerHash = charged.Seq, charged.Hash
	}
	if n.audit(e) != nil {
		return errAudit
	}
	return nil
}

// errTooLong refuses a question that takes longer than its operator allows. The amount of work does not depend on
// records, so neither does this refusal.
var errTooLong = errors.New("the question takes longer than this node's limit (max_time); ask for less in a round")

// within answers the question of a task while it is wanted, and within the operator's limit. It pays for what the
// node stores.
func (n *Node) within(t task, attempt *maskedAttempt, pay func() error) (*conclavev1.WorkRequest, error) {
	wanted := t.wanted
	if wanted == nil {
		wanted = context.Background()
	}
	ctx, done := context.WithTimeoutCause(wanted, n.cfg.MaxTime, errTooLong)
	defer done()
	n.site.Asked = ctx
	defer func() { n.site.Asked = nil }()
	asked := *t.question
	if attempt != nil {
		asked.digest = attempt.name // no earlier answer matches
		n.site.Chance = n.masks.samples.Of(t.run)
		defer func() { n.site.Chance = nil }()
	}
	return n.answer(&asked, t.spec.GetCoinVotes(), func() error {
		if err := n.site.Wanted(); err != nil {
			return err
		}
		return pay()
	})
}

// divide has the records at hand by teacher. A policy is asked with the units of each before the answer leaves.
func (n *Node) divide() error {
	if n.site.Examples != nil {
		return nil
	}
	n.divides.Store(true)
	if err := n.site.Divide(); err != nil {
		n.divides.Store(false)
		return err
	}
	if n.policy.enforcer != nil {
		n.policy.enforcer.Count(facts(n.site))
	}
	return nil
}

// answer computes the node's answer to a question, in a run that may be a baseline.
func (n *Node) answer(q *received, baseline bool, pay func() error) (*conclavev1.WorkRequest, error) {
	checked := q.checked // of a masked round, checked against its terms
	if checked == nil {
		var err error
		if checked, err = check(n.kinds, n.site.Public, q.round, baseline); err != nil {
			return nil, err
		}
	}
	if most := n.kinds[q.round.Kind].Passes; most > 0 {
		err := n.site.Pass(q.round.Run, q.round.Serves, checked.Common, q.round.Params, most)
		if err != nil {
			return nil, err
		}
	}
	if n.kinds[q.round.Kind].Divides {
		if err := n.divide(); err != nil {
			return nil, err
		}
	}
	r := question.Round{Run: q.round.Run, Number: q.round.Number, Digest: q.digest, Pay: pay}
	switch {
	case checked.Votes != nil:
		packed, err := checked.Votes(n.site, r)
		if err != nil {
			return nil, err
		}
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{
			Run: r.Run, Round: r.Number, Packed: packed,
			Teachers: uint32(n.site.Teachers), Queries: uint32(checked.Shape.Votes.Queries),
		}}}, nil
	case checked.Sum != nil:
		values, err := checked.Sum(n.site, r)
		if err != nil {
			return nil, err
		}
		return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
			Run: r.Run, Round: r.Number, Values: values,
		}}}, nil
	}
	return nil, question.ErrUnknown // only the aggregator can answer it
}
