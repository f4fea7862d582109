package service

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/conclave-dp/conclave/internal/aggregator/transport"
)

// registerHealth adds grpc.health.v1: SERVING from now on, NOT_SERVING once the returned server is shut down. A
// standby does not listen. Watches end when draining starts, because a stopping server would otherwise wait for them.
func registerHealth(server grpc.ServiceRegistrar, draining context.Context) *health.Server {
	h := health.NewServer()
	healthpb.RegisterHealthServer(server, healthService{h, draining})
	for _, name := range transport.Services() {
		h.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	return h
}

type healthService struct {
	*health.Server
	draining context.Context
}

// Watch reports the server's health until it drains.
func (h healthService) Watch(q *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.draining, cancel)()
	return h.Server.Watch(q, healthStream{stream, ctx})
}

type healthStream struct {
	healthpb.Health_WatchServer
	ctx context.Context
}

func (s healthStream) Context() context.Context { return s.ctx }
