package tracing

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// receiver is a collector that keeps what it gets.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	hold chan struct{} // not nil: answers wait for it

	mu   sync.Mutex
	got  []*spans.Span
	from []*common.KeyValue
}

func (r *receiver) Export(ctx context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range q.GetResourceSpans() {
		r.from = rs.GetResource().GetAttributes()
		for _, ss := range rs.GetScopeSpans() {
			r.got = append(r.got, ss.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *receiver) spans() []*spans.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*spans.Span(nil), r.got...)
}

// serve answers at a loopback address until the test ends.
func (r *receiver) serve(t *testing.T, options ...grpc.ServerOption) string {
	return r.serveAt(t, "127.0.0.1:0", options...)
}

func (r *receiver) serveAt(t *testing.T, address string, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return l.Addr().String()
}

func values(attributes []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		all[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return all
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come to be", what)
		}
	}
}
