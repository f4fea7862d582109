package teacher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/certs"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// protocol is the version of the wire contract this node speaks.
const protocol = 1

// ErrRefused means that the aggregator does not take this node as it is; trying
// again cannot help.
var ErrRefused = errors.New("the aggregator refused this node")

// Run keeps the node at the aggregator until ctx ends: it dials, introduces
// itself, answers rounds, and dials again when the connection is lost. It
// returns nil when ctx ends and an error matching [ErrRefused] when the
// aggregator will not have the node.
func (n *Node) Run(ctx context.Context) error {
	tlsConfig, err := certs.ClientTLS(n.cfg.TLS, n.cfg.serverName())
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(n.cfg.Aggregator,
		grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: n.cfg.Reconnect}, MinConnectTimeout: 5 * time.Second}),
	)
	if err != nil {
		return fmt.Errorf("dial aggregator %s: %w", n.cfg.Aggregator, err)
	}
	defer conn.Close()
	client := conclavev1.NewTeacherServiceClient(conn)
	pause := 100 * time.Millisecond
	for {
		started := time.Now()
		err := n.work(ctx, client)
		if ctx.Err() != nil {
			return nil
		}
		if refused(err) {
			return fmt.Errorf("%w: %s", ErrRefused, status.Convert(err).Message())
		}
		if err := certs.Probe(ctx, n.cfg.Aggregator, tlsConfig); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		if time.Since(started) > 10*time.Second {
			pause = 100 * time.Millisecond
		}
		n.log.Warn("not connected to the aggregator; trying again",
			zap.String("aggregator", n.cfg.Aggregator), zap.Duration("pause", pause), zap.Error(err))
		// Half of the pause is random, so that the nodes of a large cluster do
		// not all come back at once.
		select {
		case <-time.After(pause/2 + time.Duration(rand.Int64N(int64(pause/2)+1))):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, n.cfg.Reconnect)
	}
}

// refused tells lasting refusals from troubles that pass.
func refused(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.AlreadyExists, codes.NotFound, codes.Aborted:
		return true
	}
	return false
}

// work is one life of the stream. The caller's goroutine receives and answers;
// one more goroutine sends. Both have ended when work returns.
func (n *Node) work(ctx context.Context, client conclavev1.TeacherServiceClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Work(ctx)
	if err != nil {
		return err
	}
	outbox := make(chan *conclavev1.WorkRequest, 4)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer stream.CloseSend()
		for {
			select {
			case m := <-outbox:
				if err := stream.Send(m); err != nil {
					cancel() // Recv returns the stream's error
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		<-sent
	}()
	send := func(m *conclavev1.WorkRequest) error {
		select {
		case outbox <- m:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := send(n.hello()); err != nil {
		return err
	}
	var parts assembly
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Unavailable, "the aggregator closed the stream")
		}
		if err != nil {
			return err
		}
		switch {
		case m.GetWelcome() != nil:
			n.log.Info("joined", zap.String("aggregator", m.GetWelcome().Aggregator), zap.Int("teachers", n.cfg.Teachers))
		case m.GetPart() != nil:
			if reply := n.receive(&parts, m.GetPart()); reply != nil {
				if err := send(reply); err != nil {
					return err
				}
			}
		case m.GetWithdraw() != nil:
			n.log.Info("round went on without this node", zap.String("run", m.GetWithdraw().Run), zap.Uint64("round", m.GetWithdraw().Round))
		}
	}
}

// receive takes a part of a round and returns the answer once the round is
// whole. What cannot be answered is refused with the reason.
func (n *Node) receive(parts *assembly, p *conclavev1.RoundPart) *conclavev1.WorkRequest {
	q, err := parts.add(p)
	if err == nil && q == nil {
		return nil
	}
	if err == nil {
		var reply *conclavev1.WorkRequest
		start := time.Now()
		if reply, err = n.answer(q); err == nil {
			n.log.Debug("answered", zap.String("run", p.Run), zap.Uint64("round", p.Round), zap.Duration("took", time.Since(start)))
			return reply
		}
	}
	n.log.Error("round refused", zap.String("run", p.Run), zap.Uint64("round", p.Round), zap.Error(err))
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Refusal{
		Refusal: &conclavev1.Refusal{Run: p.Run, Round: p.Round, Reason: err.Error()},
	}}
}

func (n *Node) hello() *conclavev1.WorkRequest {
	return &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: &conclavev1.Hello{
		Protocol: protocol, Dataset: n.cfg.Dataset, Site: n.cfg.Site, Node: n.cfg.Node,
		Teachers: uint32(n.cfg.Teachers), SchemaSha256: n.schema.SHA256, Unit: n.cfg.Unit, Manifest: n.manifest.Fingerprint,
	}}}
}
