package service

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/parts"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// brokenTimeout bounds the wait for the reason why a stream takes no messages.
const brokenTimeout = 5 * time.Second

type nodes struct {
	rpc.UnimplementedTeacherServiceServer
	Options
	bans *peer.Bans
}

// Work is a node's stream. Its handler waits for the end; one goroutine receives answers, and another sends while
// there is something to send, perhaps for other nodes, too. Both leave the stream when it ends, which for a blocked
// call is just after the handler returns. The server waits for them before it closes.
func (s *nodes) Work(stream rpc.TeacherService_WorkServer) (err error) {
	session := peer.SessionOf(stream.Context())
	site := peer.Offender{Site: session.Identity.Name}
	if err := s.bans.Check(site); err != nil {
		s.Metrics.Nodes.Refused(metrics.BannedReason)
		return err
	}
	done := make(chan struct{})
	defer close(done)
	hello, welcome := make(chan *conclavev1.WorkRequest), make(chan taker)
	ended := make(chan error, 1)
	s.Lifetime.Streams.Go(func() { ended <- receive(stream, hello, welcome, done) })

	w := &worker{nodes: s, node: peer.NewNode(session), by: session.Caller}
	w.node.Software = softwareOf(stream.Context())
	send := func(m peer.Encoded) error { return stream.SendMsg(m) }
	if w.dataset, err = s.greet(stream.Context(), w.node, hello, ended, send); err != nil {
		if fault.Lasting(err) && peer.Banned(err) == nil {
			if ban := s.punish(site, session.Caller, err); ban != nil {
				return ban
			}
		}
		return err
	}
	w.log = s.Log.WithLazy(zap.String("dataset", w.dataset.Record.Name), zap.Stringer("node", w.node.ID))
	w.node.Attach(stream, &s.Lifetime.Streams, func(err error) {
		s.Lifetime.Streams.Go(func() {
			// Receiving ends, too, and has the reason.
			select {
			case <-done:
			case <-time.After(brokenTimeout):
				w.node.Drop(err)
			}
		})
	})
	defer w.node.Detach()
	defer func() { w.depart(err) }()
	welcome <- w.take // not before the node is live: its first answer may be to the round that it joined for

	select {
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-w.node.Dropped():
		return w.node.DropReason()
	case <-session.Ended():
		return session.Reason()
	case <-s.Lifetime.Draining().Done():
		return context.Cause(s.Lifetime.Draining())
	}
}

// taker takes a message from an admitted node, or the error of its stream. If it fails, the stream ends.
type taker func(*conclavev1.WorkRequest, error) error

// receive passes the first message to hello, and the following ones to the taker from welcome, until the taker fails,
// done is closed, or the stream ends.
func receive(
	stream rpc.TeacherService_WorkServer, hello chan<- *conclavev1.WorkRequest, welcome <-chan taker,
	done <-chan struct{},
) error {
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

// worker is the stream of a live node.
type worker struct {
	*nodes
	node    *peer.Node
	dataset *round.Dataset
	by      peer.Caller
	log     *zap.Logger
	sum     parts.Sum // its other parts are still to come
}

// take takes one message, or the error of the stream. An error ends the stream. A wrong answer only excludes the node
// from the round, until there were too many.
func (w *worker) take(m *conclavev1.WorkRequest, err error) error {
	if err != nil {
		if err = transport.Broken(err); fault.KindOf(err, "") == "" {
			return err
		}
		return w.rejectAndEnd(err)
	}
	if m.GetSum().GetParts() > 0 && !w.node.Asked(m.GetAttempt()) {
		return w.rejectAndEnd(fault.Rejectf(fault.Foreign, "node %v sent a part of a sum without being asked",
			w.node.ID))
	}
	if m, err = w.sum.Add(m); err != nil {
		return w.rejectAndEnd(fault.Rejectf(fault.Malformed, "node %v sent a malformed answer: %w", w.node.ID, err))
	}
	if m == nil { // more parts are expected
		return nil
	}
	var key payload.Key
	switch a := m.GetMessage().(type) {
	case *conclavev1.WorkRequest_Votes:
		key = payload.Key{Run: a.Votes.GetRun(), Number: a.Votes.GetRound()}
	case *conclavev1.WorkRequest_Sum:
		key = payload.Key{Run: a.Sum.GetRun(), Number: a.Sum.GetRound()}
	case *conclavev1.WorkRequest_Refusal:
		key = payload.Key{Run: a.Refusal.GetRun(), Number: a.Refusal.GetRound()}
	case *conclavev1.WorkRequest_Permitted:
		key = payload.Key{Run: a.Permitted.GetRun(), Number: a.Permitted.GetRound()}
	case *conclavev1.WorkRequest_Agreed:
		key = payload.Key{Run: a.Agreed.GetRun(), Number: a.Agreed.GetRound()}
	case *conclavev1.WorkRequest_Revealed:
		key = payload.Key{Run: a.Revealed.GetRun(), Number: a.Revealed.GetRound()}
	case *conclavev1.WorkRequest_Signed:
		if err := w.dataset.Signed(w.node, a.Signed); err != nil {
			return w.reject(err, auditlog.Entry{})
		}
		return nil
	case *conclavev1.WorkRequest_Ready:
		if w.dataset.Ready(w.node, a.Ready.GetRun()) {
			if w.Audit.MayLog(w.by) {
				w.log.Info("node is ready for a run", zap.String("run", fault.Printable(a.Ready.GetRun())))
			}
		}
		return nil
	default:
		return w.rejectAndEnd(fault.Rejectf(fault.Protocol, "node %v sent a second hello or an empty message",
			w.node.ID))
	}
	passing, err := w.dataset.Take(w.node, key, m)
	if err != nil {
		return w.reject(err, auditlog.Entry{Run: fault.Word(key.Run), Round: &key.Number})
	}
	switch passing {
	case "":
		return nil
	case fault.Late:
		w.log.Debug("answer to a round that is not open", zap.Uint64("round", key.Number))
	default:
		w.log.Info("answer to an earlier question of the round dropped", zap.String("run", key.Run),
			zap.Uint64("round", key.Number))
	}
	w.Metrics.Nodes.Rejected(passing)
	return nil
}

func (w *worker) rejectAndEnd(err error) error {
	if ban := w.reject(err, auditlog.Entry{}); ban != nil {
		return ban
	}
	return err
}

// reject counts a rejected message, and logs its sender and the problem. The error says that the node is now banned.
func (w *worker) reject(err error, entry auditlog.Entry) error {
	kind := fault.KindOf(err, fault.Protocol)
	entry.Dataset, entry.Node = w.dataset.Record.Name, w.node.ID.String()
	w.Metrics.Nodes.Rejected(kind)
	if w.Audit.Refusal(w.by, err, entry) {
		w.log.Warn("message rejected", zap.String("kind", string(kind)), zap.String("run", entry.Run), zap.Error(err))
	}
	if !kind.Punishable() {
		return nil
	}
	return w.punish(peer.Offender{Site: w.node.ID.Site, Dataset: entry.Dataset, Node: w.node.ID.Name}, w.by, err)
}

// punish counts a peer's misbehavior. The error says that the peer is now banned.
func (s *nodes) punish(o peer.Offender, by peer.Caller, why error) error {
	err := s.bans.Strike(o, why)
	if ban := peer.Banned(err); ban != nil && ban.First {
		s.Log.Error("banned", zap.String("site", o.Site), zap.String("node", o.Node), zap.Error(err))
		s.Metrics.Nodes.Banned()
		s.Audit.Refusal(by, err, auditlog.Entry{Dataset: o.Dataset, Node: o.Site + "/" + o.Node})
	}
	return err
}

// depart removes the node from its dataset, because its stream ended.
func (w *worker) depart(why error) {
	n := w.node
	left := auditlog.Entry{
		Event: auditlog.Left, Dataset: w.dataset.Record.Name, Node: n.ID.String(), Teachers: n.Teachers,
	}
	if why != nil {
		left.Reason = why.Error()
	}
	w.Audit.Passage(w.by, left)
	if !w.dataset.Leave(n) {
		w.log.Info("node stream replaced")
		return
	}
	gone := "it ended its stream: its process was stopped, or is reconnecting"
	switch {
	case fault.Code(why) == codes.Canceled:
		gone = "its connection broke, or its process ended"
	case why != nil:
		gone = why.Error()
	}
	w.dataset.Depart(n.ID, gone)
	w.log.Info("node left", zap.Uint32("teachers", n.Teachers), zap.Uint32("teachers_live", w.dataset.Teachers()))
}
