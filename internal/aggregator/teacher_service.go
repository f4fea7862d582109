package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// protocolVersion is the version of the exchange, oldestProtocol the oldest that a
	// hello may name: nodes are upgraded after their aggregators.
	protocolVersion = 3
	oldestProtocol  = 2
	// maxNodeTeachers bounds the teachers of one node.
	maxNodeTeachers = 1 << 16
	// helloTimeout bounds the wait for a hello; a stream that never says one
	// would hold a handler for nothing.
	helloTimeout = 10 * time.Second
	// presenceTimeout bounds a write of a node's presence to etcd.
	presenceTimeout = 5 * time.Second
)

// teacherService serves the nodes.
type teacherService struct {
	conclavev1.UnimplementedTeacherServiceServer
	*Server
}

// Work is a node's stream. The handler waits for its end; one goroutine receives and takes
// the answers, and one sends while there is something to send, which may be one that sends
// to other nodes before and after. Both are done with the stream when it ends, which for a
// blocked call is right after the handler returns; the server waits for them before it closes.
func (s *teacherService) Work(stream conclavev1.TeacherService_WorkServer) (err error) {
	n := newNode()
	n.standing = standingOf(stream.Context())
	site := offender{site: identityOf(stream.Context()).Name}
	if err := s.conduct.admits(site); err != nil {
		s.metrics.nodesRefused.WithLabelValues(putOutReason).Inc()
		return err
	}
	done := make(chan struct{})
	defer close(done)
	hello, welcome := make(chan *conclavev1.WorkRequest), make(chan taker)
	ended := make(chan error, 1)
	s.streams.Go(func() { ended <- receiveWork(stream, hello, welcome, done) })

	d, err := s.greet(stream.Context(), n, hello, ended)
	if err != nil {
		if lasting(err) {
			if out := s.punish(site, callerOf(stream.Context()), err); out != nil {
				return out
			}
		}
		return err
	}
	n.attach(&s.streams, func() {
		if err := n.send(stream); err != nil {
			s.streams.Go(func() {
				// What is received ends too, and says why.
				select {
				case <-done:
				case <-time.After(handlersTimeout):
					n.drop(err)
				}
			})
		}
	})
	defer n.detach()
	log := s.log.WithLazy(zap.String("dataset", d.record.Name), zap.Stringer("node", n.id))
	by := callerOf(stream.Context())
	defer func() { s.depart(d, n, by, err, log) }()
	// Not before the node is live: its first answer may be to the round that it joined for.
	welcome <- func(m *conclavev1.WorkRequest, err error) error {
		if err != nil {
			return s.lost(d, n, by, err, log)
		}
		return s.handle(d, n, by, m, log)
	}

	select {
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-n.dropped:
		return n.reason
	case <-n.standing.left():
		return n.standing.reason
	case <-s.draining.Done():
		return context.Cause(s.draining)
	}
}

// taker takes a message of a node that is welcome, or what its stream broke with. An
// error of it ends the stream.
type taker func(*conclavev1.WorkRequest, error) error

// receiveWork passes the first message to hello, and what follows to the taker that comes
// by welcome, until that fails, done is closed, or the stream ends.
func receiveWork(stream conclavev1.TeacherService_WorkServer, hello chan<- *conclavev1.WorkRequest, welcome <-chan taker, done <-chan struct{}) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	select {
	case hello <- m:
	case <-done:
		return nil
	}
	var take taker
	select {
	case take = <-welcome:
	case <-done:
		return nil
	}
	for {
		m, err := stream.Recv()
		select {
		case <-done:
			return nil
		default:
		}
		if err == nil || !errors.Is(err, io.EOF) {
			err = take(m, err)
		}
		if err != nil {
			return err
		}
	}
}

// greet waits for the hello, checks it and makes the node live.
func (s *teacherService) greet(ctx context.Context, n *node, in <-chan *conclavev1.WorkRequest, ended <-chan error) (*dataset, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	var hello *conclavev1.Hello
	select {
	case m := <-in:
		if hello = m.GetHello(); hello == nil {
			return nil, s.noHello(ctx, rejectedf(protocolKind, "the first message of a node must be a hello"))
		}
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil, unavailablef("the stream ended before a hello")
		}
		return nil, s.noHello(ctx, broken(err))
	case <-timeout.C:
		// It may have been lost on the way or come from a process that was asleep: the node tries again.
		return nil, s.noHello(ctx, &rejected{protocolKind, fault{codes.DeadlineExceeded, fmt.Errorf("no hello within %v", helloTimeout)}})
	case <-n.standing.left():
		return nil, n.standing.reason
	case <-s.draining.Done():
		return nil, context.Cause(s.draining)
	}

	d, last, err := s.admit(ctx, hello)
	if codeOf(err) == codes.Canceled {
		// The stream is over, perhaps for what came after the hello.
		select {
		case why := <-ended:
			if kindOf(broken(why), "") != "" {
				return nil, s.noHello(ctx, broken(why))
			}
		case <-time.After(handlersTimeout):
		}
	}
	var out *putOut
	if errors.As(err, &out) {
		s.metrics.nodesRefused.WithLabelValues(putOutReason).Inc()
		if !out.first {
			return nil, err
		}
		s.metrics.putOut.Inc()
	}
	if err != nil {
		level := zap.WarnLevel
		if errors.Is(err, coordinator.ErrWentBack) {
			level = zap.ErrorLevel
		}
		s.log.Log(level, "node refused", zap.String("site", identityOf(ctx).Name),
			zap.String("node", word(hello.GetNode())), zap.Error(err))
		if out == nil {
			s.metrics.nodesRefused.WithLabelValues(reason(err)).Inc()
		}
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{
			Dataset: hello.GetDataset(), Node: hello.GetSite() + "/" + hello.GetNode(), Teachers: hello.GetTeachers(),
		})
		return nil, err
	}
	welcome, err := encode(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Welcome{
		Welcome: &conclavev1.Welcome{Aggregator: s.config.Name, Ledger: markOf(last)},
	}})
	if err != nil {
		return nil, err
	}
	n.id = nodeID{site: hello.GetSite(), name: hello.GetNode()}
	n.teachers = hello.GetTeachers()
	// Queued before the node is live, so that no round can come first.
	n.enqueue(delivery{messages: []encoded{welcome}})
	if old := d.join(n); old != nil {
		old.drop(errReplaced)
	}
	s.markPresence(d, n, s.store.MarkLive)
	s.log.Info("node joined", zap.String("dataset", d.record.Name), zap.Stringer("node", n.id),
		zap.Uint32("teachers", n.teachers), zap.Uint32("teachers_live", d.liveTeachers()))
	s.metrics.joined.WithLabelValues(d.record.Name).Inc()
	s.joins.Add(1)
	_ = s.audit(callerOf(ctx), auditlog.Entry{Event: auditlog.Joined, Dataset: d.record.Name, Node: n.id.String(), Teachers: n.teachers})
	return d, nil
}

// admit checks a hello against the certificate, the dataset, its ledger and the manifest
// the node first came with. It returns the ledger's last entry.
func (s *teacherService) admit(ctx context.Context, h *conclavev1.Hello) (*dataset, coordinator.Mark, error) {
	d, node, err := s.examine(ctx, h)
	if err != nil {
		return nil, coordinator.Mark{}, err
	}
	if err := s.conduct.join(offender{node.Site, d.record.Name, node.Name}); err != nil {
		return nil, coordinator.Mark{}, err
	}
	last, err := s.checkMark(ctx, d.record.Name, h)
	if err != nil {
		return nil, coordinator.Mark{}, err
	}
	return d, last, s.admitNode(ctx, d, node)
}

// examine is what admit checks before anything is stored.
func (s *teacherService) examine(ctx context.Context, h *conclavev1.Hello) (*dataset, coordinator.Node, error) {
	none := coordinator.Node{}
	if h.GetProtocol() < oldestProtocol || h.GetProtocol() > protocolVersion {
		return nil, none, refusedf("node %s speaks protocol %d, this aggregator %d to %d; install matching versions",
			word(h.GetNode()), h.GetProtocol(), oldestProtocol, protocolVersion)
	}
	if site := identityOf(ctx).Name; h.GetSite() != site {
		return nil, none, deniedf("the hello names site %q, the certificate site %q; use the site's own certificate", word(h.GetSite()), site)
	}
	if err := checkName("site", h.GetSite()); err != nil {
		return nil, none, err
	}
	if err := checkName("node", h.GetNode()); err != nil {
		return nil, none, err
	}
	d, err := s.dataset(h.GetDataset())
	if err != nil {
		return nil, none, err
	}
	switch {
	case h.GetSchemaSha256() != d.record.SchemaSHA256:
		return nil, none, refusedf("node %s/%s has schema %s, dataset %q has %s; use the same schema file everywhere",
			h.GetSite(), h.GetNode(), word(h.GetSchemaSha256()), d.record.Name, d.record.SchemaSHA256)
	case h.GetUnit() != d.record.Unit:
		return nil, none, refusedf("node %s/%s partitions by unit %q, dataset %q by %q; set the same unit everywhere",
			h.GetSite(), h.GetNode(), word(h.GetUnit()), d.record.Name, d.record.Unit)
	case h.GetTeachers() == 0 || h.GetTeachers() > maxNodeTeachers:
		return nil, none, invalidf("node %s/%s hosts %d teachers; a node hosts 1 to %d",
			h.GetSite(), h.GetNode(), h.GetTeachers(), maxNodeTeachers)
	case h.GetManifest() == "" || len(h.GetManifest()) > 256:
		return nil, none, invalidf("node %s/%s sent no usable manifest fingerprint (1 to 256 characters)", h.GetSite(), h.GetNode())
	}
	return d, coordinator.Node{
		Dataset:      d.record.Name,
		Site:         h.GetSite(),
		Name:         h.GetNode(),
		Manifest:     h.GetManifest(),
		SchemaSHA256: h.GetSchemaSha256(),
		Teachers:     h.GetTeachers(),
	}, nil
}

// handle takes one message of a live node. An error ends the stream; a wrong answer only
// costs the node its part in the round, until there were too many of them.
func (s *teacherService) handle(d *dataset, n *node, by caller, m *conclavev1.WorkRequest, log *zap.Logger) error {
	var key roundKey
	switch a := m.GetMessage().(type) {
	case *conclavev1.WorkRequest_Votes:
		key = roundKey{run: a.Votes.GetRun(), number: a.Votes.GetRound()}
	case *conclavev1.WorkRequest_Sum:
		key = roundKey{run: a.Sum.GetRun(), number: a.Sum.GetRound()}
	case *conclavev1.WorkRequest_Refusal:
		key = roundKey{run: a.Refusal.GetRun(), number: a.Refusal.GetRound()}
	case *conclavev1.WorkRequest_Ready:
		if n.ready(a.Ready.GetRun()) {
			log.Info("node is ready for a run", zap.String("run", printable(a.Ready.GetRun())))
			d.wakeAll()
		}
		return nil
	default:
		err := rejectedf(protocolKind, "node %v sent a second hello or an empty message", n.id)
		if out := s.reject(d, n, by, err, auditlog.Entry{}, log); out != nil {
			return out
		}
		return err
	}
	e := d.execution(key)
	switch kind := n.answers(asking{key, m.GetAttempt()}); {
	case kind == duplicateKind:
		return s.reject(d, n, by, rejectedf(kind, "node %v answered round %d twice; the first answer counts", n.id, key.number), entryOf(key), log)
	case kind == foreignKind && e != nil:
		return s.reject(d, n, by, rejectedf(unaskedKind, "node %v answered round %d, which it was not asked", n.id, key.number), entryOf(key), log)
	case kind == foreignKind:
		return s.reject(d, n, by, rejectedf(kind, "node %v answered round %d of a run in which it was not asked it", n.id, key.number), entryOf(key), log)
	case kind == lateKind || e == nil:
		// Late answers are part of normal work: the round was over before the
		// withdrawal arrived.
		log.Debug("answer to a round that is not open", zap.Uint64("round", key.number))
		s.metrics.rejected.WithLabelValues(lateKind).Inc()
		return nil
	case m.GetAttempt() != e.attempt:
		// The round was given up and asked again, perhaps with another question.
		log.Info("answer to an earlier question of the round dropped", zap.String("run", key.run), zap.Uint64("round", key.number))
		s.metrics.rejected.WithLabelValues(staleKind).Inc()
		return nil
	}
	if err := e.take(n, m); err != nil {
		return s.reject(d, n, by, err, entryOf(key), log)
	}
	return nil
}

// entryOf is what the audit log is told of the round that a message names.
func entryOf(key roundKey) auditlog.Entry {
	return auditlog.Entry{Run: word(key.run), Round: &key.number}
}

// lost names what a node's stream broke with, where a message of the node did it.
func (s *teacherService) lost(d *dataset, n *node, by caller, err error, log *zap.Logger) error {
	if err = broken(err); kindOf(err, "") == "" {
		return err
	}
	if out := s.reject(d, n, by, err, auditlog.Entry{}, log); out != nil {
		return out
	}
	return err
}

// reject counts a message that does not count, and writes who sent it and what is wrong
// with it. The error says that the node is put out for it.
func (s *teacherService) reject(d *dataset, n *node, by caller, err error, entry auditlog.Entry, log *zap.Logger) error {
	kind := kindOf(err, protocolKind)
	entry.Dataset, entry.Node = d.record.Name, n.id.String()
	log.Warn("message rejected", zap.String("kind", kind), zap.String("run", entry.Run), zap.Error(err))
	s.metrics.rejected.WithLabelValues(kind).Inc()
	s.auditRefusal(by, err, entry)
	if !punishable(kind) {
		return nil
	}
	return s.punish(offender{n.id.site, d.record.Name, n.id.name}, by, err)
}

// noHello counts a stream that ends before there is a node, where something that was sent
// is why.
func (s *teacherService) noHello(ctx context.Context, err error) error {
	if kind := kindOf(err, ""); kind != "" {
		s.log.Warn("message rejected", zap.String("site", identityOf(ctx).Name), zap.String("kind", kind), zap.Error(err))
		s.metrics.rejected.WithLabelValues(kind).Inc()
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{})
	}
	return err
}

// punish notes what a peer did. The error says that it is put out for it.
func (s *teacherService) punish(o offender, by caller, why error) error {
	err := s.conduct.strike(o, why)
	if err != nil && !quiet(err) {
		s.log.Error("put out", zap.String("site", o.site), zap.String("node", o.node), zap.Error(err))
		s.metrics.putOut.Inc()
		s.auditRefusal(by, err, auditlog.Entry{Dataset: o.dataset, Node: o.site + "/" + o.node})
	}
	return err
}

// lasting says whether a stream was refused for what it is, and not for what passes.
func lasting(err error) bool {
	var out *putOut
	switch codeOf(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.ResourceExhausted:
		return !errors.As(err, &out)
	}
	return false
}

func (s *teacherService) depart(d *dataset, n *node, by caller, why error, log *zap.Logger) {
	left := auditlog.Entry{Event: auditlog.Left, Dataset: d.record.Name, Node: n.id.String(), Teachers: n.teachers}
	if why != nil {
		left.Reason = why.Error()
	}
	_ = s.audit(by, left)
	if !d.leave(n) {
		log.Info("node stream replaced")
		return
	}
	log.Info("node left", zap.Uint32("teachers", n.teachers), zap.Uint32("teachers_live", d.liveTeachers()))
	s.markPresence(d, n, s.store.MarkGone)
}
