package teacher

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// protocol is the version of the wire contract this node speaks.
const protocol = 2

type workStream = conclavev1.TeacherService_WorkClient

// work is one life of the stream. One goroutine receives, one sends, and the
// caller's answers. All have ended when work returns, which for a round under
// way is after its teachers are trained and saved.
func (n *Node) work(ctx context.Context, client conclavev1.TeacherServiceClient) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	stream, err := client.Work(ctx)
	if err != nil {
		return err
	}
	in, out := newInbox(), make(chan *conclavev1.WorkRequest, 1)
	ended := make(chan error, 1)
	out <- n.hello()
	others.Go(func() { send(ctx, stream, out) })
	others.Go(func() { ended <- n.receive(ctx, stream, in) })
	for {
		select {
		case <-in.filled:
		case err := <-ended:
			return err
		}
		for t, ok := in.take(); ok; t, ok = in.take() {
			select {
			case out <- n.reply(t):
			case err := <-ended:
				return err
			}
		}
	}
}

// send writes what is in out until ctx ends or the stream breaks. The reason of
// a break is for receive to find.
func send(ctx context.Context, stream workStream, out <-chan *conclavev1.WorkRequest) {
	for {
		select {
		case m := <-out:
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
		n.log.Info("joined", zap.String("aggregator", m.GetWelcome().Aggregator), zap.Int("teachers", n.cfg.Teachers))
	case m.GetPart() != nil:
		p := m.GetPart()
		q, err := parts.add(p)
		if q == nil && err == nil {
			return nil
		}
		return in.put(ctx, task{run: p.Run, round: p.Round, attempt: m.Attempt, question: q, refusal: err})
	case m.GetWithdraw() != nil:
		w := m.GetWithdraw()
		in.withdraw(w.Run, w.Round)
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
		start := time.Now()
		var answer *conclavev1.WorkRequest
		if answer, err = n.answer(t.question); err == nil {
			n.log.Debug("answered", zap.String("run", t.run), zap.Uint64("round", t.round), zap.Duration("took", time.Since(start)))
			answer.Attempt = t.attempt
			return answer
		}
	}
	n.log.Error("round refused", zap.String("run", t.run), zap.Uint64("round", t.round), zap.Error(err))
	reason := err.Error()
	if errors.Is(err, errState) {
		reason = errState.Error() // the names of the site's files stay here
	}
	return &conclavev1.WorkRequest{Attempt: t.attempt, Message: &conclavev1.WorkRequest_Refusal{
		Refusal: &conclavev1.Refusal{Run: t.run, Round: t.round, Reason: reason},
	}}
}

func (n *Node) hello() *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: &conclavev1.Hello{
		Protocol: protocol, Dataset: n.cfg.Dataset, Site: n.cfg.Site, Node: n.cfg.Node,
		Teachers: uint32(n.cfg.Teachers), SchemaSha256: n.schema.SHA256, Unit: n.cfg.Unit, Manifest: n.manifest.Fingerprint,
	}}}
}
