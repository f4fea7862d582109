package node

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/messages"
	"github.com/conclave-dp/conclave/internal/parts"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// protocol is the version of the wire contract this node speaks.
const protocol = 5

// mostMessages bounds the messages and texts within a message of the aggregator, each of which may take two
// bytes on the wire and a hundred in memory. A page of the ledger has the most of them, one for each entry in 4 MiB.
const mostMessages = 1 << 15

type workStream = conclavev1.TeacherService_WorkClient

// work is one life of the stream. One goroutine receives, one sends, one says what the site
// permits, and the caller's answers. All have ended when work returns, which for a round under
// way is after its teachers are trained and saved.
//
// When stopping ends it works on what is in hand for as long as it may, and leaves.
func (n *Node) work(stopping context.Context, client conclavev1.TeacherServiceClient) (err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(stopping))
	var others sync.WaitGroup
	defer func() {
		cancel()
		others.Wait()
		n.left(err)
	}()
	others.Go(func() { n.drain(ctx, stopping, cancel) })
	others.Go(func() { n.ledger.saveOften(ctx, n.log) })
	stream, err := client.Work(ctx, grpc.ForceCodecV2(messages.NewCodec(mostMessages)))
	if err != nil {
		return err
	}
	n.meet(stream)
	in, out := newInbox(), make(chan *conclavev1.WorkRequest, 1)
	ended := make(chan error, 1)
	out <- n.hello()
	again, stop := n.policy.ticks()
	defer stop()
	others.Go(func() { n.decide(ctx, in.beside, again, out) })
	others.Go(func() { send(ctx, stream, out) })
	others.Go(func() { ended <- n.receive(stream, in) })
	for {
		select {
		case <-in.filled:
		case err := <-ended:
			return err
		case <-stopping.Done():
			return context.Cause(stopping)
		}
		for t, ok := in.take(); ok; t, ok = in.take() {
			m := n.reply(t)
			select {
			case out <- m:
				n.worked = true
				n.policy.said(m)
			case err := <-ended:
				return err
			}
			if stopping.Err() != nil {
				// The end of the stream comes after the answer, and the aggregator's
				// after it has both.
				select {
				case out <- nil:
					return <-ended
				case err := <-ended:
					return err
				}
			}
		}
	}
}

// decide says what the site permits, when it is asked and when its people have decided, until
// ctx ends.
func (n *Node) decide(ctx context.Context, in *queue, again <-chan time.Time, out chan<- *conclavev1.WorkRequest) {
	say := func(m *conclavev1.WorkRequest) {
		select {
		case out <- m:
			n.policy.said(m)
		case <-ctx.Done():
		}
	}
	for {
		select {
		case <-in.filled:
			for t, ok := in.take(); ok; t, ok = in.take() {
				say(n.reply(t))
			}
		case <-again:
			for _, m := range n.policy.ready(n.log) {
				say(m)
			}
		case <-ctx.Done():
			return
		}
	}
}

// drain ends a stream when the node is told to stop: at once where it is not welcome
// yet, else after the time that a round in hand may take.
func (n *Node) drain(ctx, stopping context.Context, cancel func()) {
	select {
	case <-stopping.Done():
	case <-ctx.Done():
		return
	}
	defer cancel()
	if !n.watch.metrics.connected.Load() {
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
	if !n.watch.metrics.connected.Swap(false) {
		return
	}
	e := auditlog.Entry{Event: auditlog.Left}
	if why != nil {
		e.Reason = status.Convert(why).Message()
	}
	_ = n.audit(e)
}

// send writes what is in out until ctx ends, the stream breaks, or nil comes: then it ends the
// stream from this side. The reason of
// a break is for receive to find.
func send(ctx context.Context, stream workStream, out <-chan *conclavev1.WorkRequest) {
	for {
		select {
		case m := <-out:
			if m == nil {
				_ = stream.CloseSend()
				return
			}
			for _, part := range parts.OfSum(m) {
				if stream.Send(part) != nil {
					return
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) hello() *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{
		Hello: helloOf(n.cfg, n.site.Schema, n.manifest.Manifest, n.ledger),
	}}
}
