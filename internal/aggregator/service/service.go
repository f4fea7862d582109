// Package service serves nodes, students, operators and sites that join over gRPC. What happens to a round, to a run of
// the queue, or to a peer is decided in the packages round, queue and peer.
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
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
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
	// Authorities are those whose certificates are let in.
	Authorities func() ([]*x509.Certificate, error)

	// What each student, or caller, does one at a time: pricing plans that take long, and listing runs.
	pricing, listing *turns
}

// Register adds the services to a server. The returned health service is to be shut down when
// the server stops.
func Register(server grpc.ServiceRegistrar, o Options) *health.Server {
	o.pricing, o.listing = new(turns), new(turns)
	bans := peer.NewBans()
	conclavev1.RegisterTeacherServiceServer(server, &nodes{Options: o, bans: bans})
	conclavev1.RegisterOperatorServiceServer(server, &operators{Options: o, bans: bans})
	conclavev1.RegisterStudentServiceServer(server, &students{
		Options: o, repeats: peer.NewRates(repeatBurst, repeatEvery), signs: peer.NewRates(signBurst, signEvery),
	})
	conclavev1.RegisterRunServiceServer(server, &runs{
		Options: o, claims: peer.NewRates(claimBurst, claimEvery), fetches: peer.NewRates(fetchBurst, fetchEvery),
	})
	looks := peer.NewRates(rosterBurst, rosterEvery)
	conclavev1.RegisterEnrollServiceServer(server, &enrolling{Options: o, looks: looks})
	conclavev1.RegisterAdmitServiceServer(server, &admitting{Options: o, looks: looks})
	return registerHealth(server, o.Lifetime.Draining())
}

// refused writes why a call was refused to the audit log, and returns the error.
func (o *Options) refused(ctx context.Context, err error, e auditlog.Entry) error {
	if err != nil {
		o.Audit.Refusal(peer.SessionOf(ctx).Caller, err, e)
	}
	return err
}

// claimKey is the metadata in which calls about a run carry the claim of their worker.
const claimKey = "conclave-claim"

func claimOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, claimKey); len(values) == 1 {
		return values[0]
	}
	return ""
}
