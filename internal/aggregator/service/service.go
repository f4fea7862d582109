// Package service serves nodes, students, operators and joining sites over gRPC. Packages round, queue and peer
// decide what happens to rounds, queued runs and peers.
package service

import (
	"context"
	"crypto/x509"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/metadata"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/queue"
	"github.com/conclave-dp/conclave/internal/aggregator/relay"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// Options are what the services need. All are required.
type Options struct {
	Name      string // of the aggregator
	Store     *coordinator.Store
	Lead      *coordinator.Leadership
	Rounds    *round.Rounds
	Queue     *queue.Queue
	Relay     *relay.Relay
	Lifetime  *lifetime.Lifetime
	Metrics   *metrics.Metrics
	Audit     peer.AuditLog
	Log       *zap.Logger
	AllowCoin bool
	// Authorities returns the authorities whose certificates are accepted.
	Authorities func() ([]*x509.Certificate, error)
	// Repeats replaces repeatBurst in tests; 0 keeps it.
	Repeats int

	// Each caller does only one of these at a time: pricing slow plans, and listing runs.
	pricing, listing *turns
}

// Register adds the services to a server. The caller shuts the returned health service down when the server stops.
func Register(server grpc.ServiceRegistrar, o Options) *health.Server {
	o.pricing, o.listing = new(turns), new(turns)
	bans := peer.NewBans()
	rpc.RegisterTeacherServiceServer(server, &nodes{Options: o, bans: bans})
	rpc.RegisterOperatorServiceServer(server, &operators{Options: o, bans: bans})
	rpc.RegisterStudentServiceServer(server, newStudents(o))
	rpc.RegisterRunServiceServer(server, &runs{
		Options: o, claims: peer.NewRates(claimBurst, claimEvery), fetches: peer.NewRates(fetchBurst, fetchEvery),
	})
	looks := peer.NewRates(rosterBurst, rosterEvery)
	rpc.RegisterEnrollServiceServer(server, &enrolling{Options: o, looks: looks})
	rpc.RegisterAdmitServiceServer(server, &admitting{Options: o, looks: looks})
	return registerHealth(server, o.Lifetime.Draining())
}

// refused logs to the audit log why a call was refused, and returns the error.
func (o *Options) refused(ctx context.Context, err error, e auditlog.Entry) error {
	if err != nil {
		o.Audit.Refusal(peer.SessionOf(ctx).Caller, err, e)
	}
	return err
}

// claimKey is the metadata key that carries a worker's claim in calls about its run.
const claimKey = "conclave-claim"

func claimOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, claimKey); len(values) == 1 {
		return values[0]
	}
	return ""
}
