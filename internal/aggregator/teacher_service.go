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
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
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

// errReplaced is the reason a stream ends with when its node opened another.
var errReplaced = fault.Errorf(codes.Aborted,
	"the node opened a newer stream and one stream is kept per node; give every process a node name of its own")

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
	session := peer.SessionOf(stream.Context())
	n := peer.NewNode(session)
	site := peer.Offender{Site: session.Identity.Name}
	if err := s.bans.Check(site); err != nil {
		s.metrics.Nodes.Refused(metrics.BannedReason)
		return err
	}
	done := make(chan struct{})
	defer close(done)
	hello, welcome := make(chan *conclavev1.WorkRequest), make(chan taker)
	ended := make(chan error, 1)
	s.streams.Go(func() { ended <- receiveWork(stream, hello, welcome, done) })

	d, err := s.greet(stream.Context(), n, hello, ended)
	if err != nil {
		if fault.Lasting(err) && peer.Banned(err) == nil {
			if ban := s.punish(site, session.Caller, err); ban != nil {
				return ban
			}
		}
		return err
	}
	n.Attach(stream, &s.streams, func(err error) {
		s.streams.Go(func() {
			// What is received ends too, and says why.
			select {
			case <-done:
			case <-time.After(handlersTimeout):
				n.Drop(err)
			}
		})
	})
	defer n.Detach()
	log := s.log.WithLazy(zap.String("dataset", d.record.Name), zap.Stringer("node", n.ID))
	by := session.Caller
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
	case <-n.Dropped():
		return n.DropReason()
	case <-session.Ended():
		return session.Reason()
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
func (s *teacherService) greet(ctx context.Context, n *peer.Node, in <-chan *conclavev1.WorkRequest, ended <-chan error) (*dataset, error) {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	var hello *conclavev1.Hello
	select {
	case m := <-in:
		if hello = m.GetHello(); hello == nil {
			return nil, s.noHello(ctx, fault.Rejectf(fault.Protocol, "the first message of a node must be a hello"))
		}
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil, unavailablef("the stream ended before a hello")
		}
		return nil, s.noHello(ctx, transport.Broken(err))
	case <-timeout.C:
		// It may have been lost on the way or come from a process that was asleep: the node tries again.
		return nil, s.noHello(ctx, fault.RejectCodef(fault.Protocol, codes.DeadlineExceeded, "no hello within %v", helloTimeout))
	case <-n.Session.Ended():
		return nil, n.Session.Reason()
	case <-s.draining.Done():
		return nil, context.Cause(s.draining)
	}

	d, last, err := s.admit(ctx, hello)
	if fault.Code(err) == codes.Canceled {
		// The stream is over, perhaps for what came after the hello.
		select {
		case why := <-ended:
			if fault.KindOf(transport.Broken(why), "") != "" {
				return nil, s.noHello(ctx, transport.Broken(why))
			}
		case <-time.After(handlersTimeout):
		}
	}
	ban := peer.Banned(err)
	if ban != nil {
		s.metrics.Nodes.Refused(metrics.BannedReason)
		if !ban.First {
			return nil, err
		}
		s.metrics.Nodes.Banned()
	}
	if err != nil {
		level := zap.WarnLevel
		if errors.Is(err, coordinator.ErrWentBack) {
			level = zap.ErrorLevel
		}
		s.log.Log(level, "node refused", zap.String("site", n.Session.Identity.Name),
			zap.String("node", fault.Word(hello.GetNode())), zap.Error(err))
		if ban == nil {
			s.metrics.Nodes.Refused(fault.Reason(err))
		}
		s.auditRefusal(n.Session.Caller, err, auditlog.Entry{
			Dataset: hello.GetDataset(), Node: hello.GetSite() + "/" + hello.GetNode(), Teachers: hello.GetTeachers(),
		})
		return nil, err
	}
	welcome, err := peer.Encode(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Welcome{
		Welcome: &conclavev1.Welcome{Aggregator: s.config.Name, Ledger: markOf(last)},
	}})
	if err != nil {
		return nil, err
	}
	n.ID = peer.ID{Site: hello.GetSite(), Name: hello.GetNode()}
	n.Teachers = hello.GetTeachers()
	// Queued before the node is live, so that no round can come first.
	n.Send(welcome)
	if old := d.join(n); old != nil {
		old.Drop(errReplaced)
	}
	s.markPresence(d, n, s.store.MarkLive)
	s.log.Info("node joined", zap.String("dataset", d.record.Name), zap.Stringer("node", n.ID),
		zap.Uint32("teachers", n.Teachers), zap.Uint32("teachers_live", d.Teachers()))
	s.metrics.Nodes.Joined(d.record.Name)
	_ = s.audit(n.Session.Caller, auditlog.Entry{Event: auditlog.Joined, Dataset: d.record.Name, Node: n.ID.String(), Teachers: n.Teachers})
	return d, nil
}

// admit checks a hello against the certificate, the dataset, its ledger and the manifest
// the node first came with. It returns the ledger's last entry.
func (s *teacherService) admit(ctx context.Context, h *conclavev1.Hello) (*dataset, coordinator.Mark, error) {
	d, node, err := s.examine(ctx, h)
	if err != nil {
		return nil, coordinator.Mark{}, err
	}
	if err := s.bans.Join(peer.Offender{Site: node.Site, Dataset: d.record.Name, Node: node.Name}); err != nil {
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
			fault.Word(h.GetNode()), h.GetProtocol(), oldestProtocol, protocolVersion)
	}
	if site := peer.SessionOf(ctx).Identity.Name; h.GetSite() != site {
		return nil, none, fault.Deniedf("the hello names site %q, the certificate site %q; use the site's own certificate", fault.Word(h.GetSite()), site)
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
			h.GetSite(), h.GetNode(), fault.Word(h.GetSchemaSha256()), d.record.Name, d.record.SchemaSHA256)
	case h.GetUnit() != d.record.Unit:
		return nil, none, refusedf("node %s/%s partitions by unit %q, dataset %q by %q; set the same unit everywhere",
			h.GetSite(), h.GetNode(), fault.Word(h.GetUnit()), d.record.Name, d.record.Unit)
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
func (s *teacherService) handle(d *dataset, n *peer.Node, by caller, m *conclavev1.WorkRequest, log *zap.Logger) error {
	var key roundKey
	switch a := m.GetMessage().(type) {
	case *conclavev1.WorkRequest_Votes:
		key = roundKey{run: a.Votes.GetRun(), number: a.Votes.GetRound()}
	case *conclavev1.WorkRequest_Sum:
		key = roundKey{run: a.Sum.GetRun(), number: a.Sum.GetRound()}
	case *conclavev1.WorkRequest_Refusal:
		key = roundKey{run: a.Refusal.GetRun(), number: a.Refusal.GetRound()}
	case *conclavev1.WorkRequest_Ready:
		if n.Ready(a.Ready.GetRun()) {
			log.Info("node is ready for a run", zap.String("run", fault.Printable(a.Ready.GetRun())))
			d.wakeAll()
		}
		return nil
	default:
		err := fault.Rejectf(fault.Protocol, "node %v sent a second hello or an empty message", n.ID)
		if out := s.reject(d, n, by, err, auditlog.Entry{}, log); out != nil {
			return out
		}
		return err
	}
	e := d.execution(key)
	switch kind := n.Answer(peer.Round{Run: key.run, Number: key.number, Attempt: m.GetAttempt()}); {
	case kind == fault.Duplicate:
		return s.reject(d, n, by, fault.Rejectf(kind, "node %v answered round %d twice; the first answer counts", n.ID, key.number), entryOf(key), log)
	case kind == fault.Foreign && e != nil:
		return s.reject(d, n, by, fault.Rejectf(fault.Unasked, "node %v answered round %d, which it was not asked", n.ID, key.number), entryOf(key), log)
	case kind == fault.Foreign:
		return s.reject(d, n, by, fault.Rejectf(kind, "node %v answered round %d of a run in which it was not asked it", n.ID, key.number), entryOf(key), log)
	case kind == fault.Late || e == nil:
		// Late answers are part of normal work: the round was over before the
		// withdrawal arrived.
		log.Debug("answer to a round that is not open", zap.Uint64("round", key.number))
		s.metrics.Nodes.Rejected(fault.Late)
		return nil
	case m.GetAttempt() != e.attempt:
		// The round was given up and asked again, perhaps with another question.
		log.Info("answer to an earlier question of the round dropped", zap.String("run", key.run), zap.Uint64("round", key.number))
		s.metrics.Nodes.Rejected(fault.Stale)
		return nil
	}
	if err := e.take(n, m); err != nil {
		return s.reject(d, n, by, err, entryOf(key), log)
	}
	return nil
}

// entryOf is what the audit log is told of the round that a message names.
func entryOf(key roundKey) auditlog.Entry {
	return auditlog.Entry{Run: fault.Word(key.run), Round: &key.number}
}

// lost names what a node's stream broke with, where a message of the node did it.
func (s *teacherService) lost(d *dataset, n *peer.Node, by caller, err error, log *zap.Logger) error {
	if err = transport.Broken(err); fault.KindOf(err, "") == "" {
		return err
	}
	if out := s.reject(d, n, by, err, auditlog.Entry{}, log); out != nil {
		return out
	}
	return err
}

// reject counts a message that does not count, and writes who sent it and what is wrong
// with it. The error says that the node is banned for it.
func (s *teacherService) reject(d *dataset, n *peer.Node, by caller, err error, entry auditlog.Entry, log *zap.Logger) error {
	kind := fault.KindOf(err, fault.Protocol)
	entry.Dataset, entry.Node = d.record.Name, n.ID.String()
	log.Warn("message rejected", zap.String("kind", string(kind)), zap.String("run", entry.Run), zap.Error(err))
	s.metrics.Nodes.Rejected(kind)
	s.auditRefusal(by, err, entry)
	if !kind.Punishable() {
		return nil
	}
	return s.punish(peer.Offender{Site: n.ID.Site, Dataset: d.record.Name, Node: n.ID.Name}, by, err)
}

// noHello counts a stream that ends before there is a node, where something that was sent
// is why.
func (s *teacherService) noHello(ctx context.Context, err error) error {
	if kind := fault.KindOf(err, ""); kind != "" {
		s.log.Warn("message rejected", zap.String("site", peer.SessionOf(ctx).Identity.Name), zap.String("kind", string(kind)), zap.Error(err))
		s.metrics.Nodes.Rejected(kind)
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{})
	}
	return err
}

// punish counts what a peer did against it. The error says that it is banned for it.
func (s *teacherService) punish(o peer.Offender, by caller, why error) error {
	err := s.bans.Strike(o, why)
	if ban := peer.Banned(err); ban != nil && ban.First {
		s.log.Error("banned", zap.String("site", o.Site), zap.String("node", o.Node), zap.Error(err))
		s.metrics.Nodes.Banned()
		s.auditRefusal(by, err, auditlog.Entry{Dataset: o.Dataset, Node: o.Site + "/" + o.Node})
	}
	return err
}

func (s *teacherService) depart(d *dataset, n *peer.Node, by caller, why error, log *zap.Logger) {
	left := auditlog.Entry{Event: auditlog.Left, Dataset: d.record.Name, Node: n.ID.String(), Teachers: n.Teachers}
	if why != nil {
		left.Reason = why.Error()
	}
	_ = s.audit(by, left)
	if !d.leave(n) {
		log.Info("node stream replaced")
		return
	}
	log.Info("node left", zap.Uint32("teachers", n.Teachers), zap.Uint32("teachers_live", d.Teachers()))
	s.markPresence(d, n, s.store.MarkGone)
}

// admitNode is [coordinator.Store.AdmitNode] within the bound on a site's names. Nothing is
// held while etcd is asked: after a change of leaders all nodes come at once.
func (s *Server) admitNode(ctx context.Context, d *dataset, n coordinator.Node) error {
	id := peer.ID{Site: n.Site, Name: n.Name}
	known, err := d.names.Reserve(id, func() (ids []peer.ID, err error) {
		nodes, err := s.store.Nodes(ctx, d.record.Name)
		for _, n := range nodes {
			ids = append(ids, peer.ID{Site: n.Site, Name: n.Name})
		}
		return ids, err
	})
	if err != nil {
		return fmt.Errorf("dataset %q: %w", d.record.Name, err)
	}
	err = s.store.AdmitNode(ctx, s.lead, n)
	if err != nil && !known {
		d.names.GiveBack(id)
	}
	return err
}
