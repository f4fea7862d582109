package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/dial"
	"github.com/conclave-dp/conclave/internal/statelock"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// ErrRefused means that the aggregator does not accept this node, or the node does not accept the aggregator's
// certificate; a retry cannot help.
var ErrRefused = errors.New("the node cannot join")

// Run keeps the node connected to the aggregator until ctx ends: it dials, introduces itself, answers rounds, and
// reconnects when the connection is lost. It returns nil when ctx ends, and an error matching [ErrRefused] if the
// aggregator refuses the node.
//
// Meanwhile no other process can run a node on its state folder.
//
// If ctx ends in the middle of a round, the node answers the round first unless that takes longer than Config.Drain.
func (n *Node) Run(ctx context.Context) (err error) {
	release, err := statelock.Take(n.cfg.State)
	if err != nil {
		return err
	}
	defer release()
	closeAll, err := n.watch.open(ctx, n.cfg, n.ready, n.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	telling, stop := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { n.policy.notify.Run(telling) })
	defer told.Wait()
	defer stop()
	if g := n.policy.enforcer; g != nil {
		if err := g.Enough(); err != nil {
			return fmt.Errorf("the node cannot join: %w", err)
		}
		if err := g.Check(); err != nil {
			n.log.Error("the node answers no rounds until this is fixed", zap.Error(err))
		}
	}
	target, err := dial.Parse(n.cfg.Aggregator, n.cfg.ServerName)
	if err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}
	conn, err := target.Connect(n.cfg.TLS, n.cfg.Reconnect)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rpc.NewTeacherServiceClient(conn)
	pauses := dial.Pauses(n.cfg.Reconnect)
	for {
		started := time.Now()
		n.worked = false
		err := n.work(ctx, client)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errManifest) || errors.Is(err, errWentBack) {
			return err
		}
		if refused(err) {
			return fmt.Errorf("%w: %s", ErrRefused, dial.Message(err))
		}
		if probed := conn.Probe(ctx); probed != nil {
			if !n.awaitsRenewal(probed) {
				return fmt.Errorf("%w: %w", ErrRefused, probed)
			}
			err = probed
		}
		// Leaders may change quickly, so a node that answered something reconnects at once.
		if n.worked || time.Since(started) > 10*time.Second {
			pauses.Reset()
		}
		pause := max(dial.Again(err), pauses.NextBackOff())
		n.log.Warn("not connected to the aggregator; retrying",
			zap.String("aggregator", n.cfg.Aggregator), zap.Duration("pause", pause), zap.Error(err))
		if dial.Wait(ctx, pause); ctx.Err() != nil {
			return nil
		}
	}
}

// awaitsRenewal reports whether a node that was once welcome waits for a new certificate, its own or the
// aggregator's, after one expired: it dials as soon as the file is there. A node that starts with an expired one
// gives up, and so does one whose own was revoked.
func (n *Node) awaitsRenewal(probed error) bool {
	return n.watch.metrics.welcomed.Load() &&
		(errors.Is(probed, certs.ErrExpired) || errors.Is(probed, certs.ErrRevoked))
}

// refused distinguishes lasting refusals from temporary problems. Unauthenticated means that the stream's certificate
// ended; dialling shows whether the one on disk is better.
func refused(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.Unimplemented,
		codes.AlreadyExists, codes.NotFound, codes.Aborted:
		return true
	}
	return false
}
