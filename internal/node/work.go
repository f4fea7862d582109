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
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// protocol is the version of the wire contract that this node speaks.
const protocol = 5

// mostMessages bounds the messages and strings within an aggregator's message, each of which may take two bytes on
// the wire and a hundred in memory. A page of the ledger has the most, one for each entry in 4 MiB.
const mostMessages = 1 << 15

type workStream = rpc.TeacherService_WorkClient

// work is the life of one stream. One goroutine receives, one sends, one reports the site's permissions, and the
// caller's answers. All have ended when work returns; a round in progress first trains its teachers and saves them.
//
// When stopping ends, work finishes the round in hand within the allowed time, and leaves.
func (n *Node) work(stopping context.Context, client rpc.TeacherServiceClient) (err error) {
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
				// This side ends the stream after the answer, and the aggregator after it has received both.
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

// decide reports the site's permissions, when asked and after its people have decided, until ctx ends.
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

// drain ends a stream when the node is told to stop: at once if it is not welcomed yet, else after the time allowed
// for the round in hand.
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

// left records that the stream is over.
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

// send sends the messages in out until ctx ends, the stream breaks, or nil arrives, which ends the stream from this
// side. receive finds the reason of a break.
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
