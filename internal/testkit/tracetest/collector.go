// Package tracetest is a collector of OpenTelemetry traces for tests: OTLP over gRPC on
// loopback.
package tracetest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Collector stores what it receives.
type Collector struct {
	collector.UnimplementedTraceServiceServer
	// Mute makes it accept requests and never answer. Set it before Serve.
	Mute bool

	mu   sync.Mutex
	got  []*otlp.Span
	from []*common.KeyValue
	text strings.Builder
}

// Export is called by exporters.
func (c *Collector) Export(ctx context.Context,
	q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	if c.Mute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(q.String())
	for _, rs := range q.GetResourceSpans() {
		c.from = rs.GetResource().GetAttributes()
		for _, ss := range rs.GetScopeSpans() {
			c.got = append(c.got, ss.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// Spans returns the spans received so far, in order.
func (c *Collector) Spans() []*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*otlp.Span(nil), c.got...)
}

// Resource is the last sender's resource attributes.
func (c *Collector) Resource() []*common.KeyValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.from
}

// Text is everything received, for tests that look for what must not be in it.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// Serve serves at an address until the test ends, and returns the address. An empty address means any on loopback.
func (c *Collector) Serve(t testing.TB, address string, options ...grpc.ServerOption) string {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	server := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return l.Addr().String()
}
