package teacher

import (
	"context"
	"errors"
	"fmt"
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
		if errors.Is(err, errManifest) {
			return err
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
