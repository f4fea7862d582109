package student

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/tracetest"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// A round is one span, however often it is asked, and the aggregator gets its context. A fit has no span.
func TestSpansOfAStudent(t *testing.T) {
	told := make(chan string, 10)
	s := &service{ask: func(call int, stream rpc.StudentService_AskServer) error {
		told <- strings.Join(metadata.ValueFromIncomingContext(stream.Context(), "traceparent"), ",")
		if _, err := stream.Recv(); err != nil {
			return err
		}
		switch call {
		case 0:
			return status.Error(codes.Unavailable, "stopping")
		case 2:
			return status.Error(codes.ResourceExhausted, "tell-tale words")
		}
		return stream.Send(release("r", 7))
	}}
	dir := certstest.New(t)
	address, _ := serve(t, dir, "127.0.0.1:0", s)
	var collector tracetest.Collector
	c := studentConfig(dir, address)
	c.Traces = tracing.Config{Endpoint: collector.Serve(t, ""), Insecure: true}
	client := newClient(t, c)
	_, err := client.Ask(testkit.Within(t), question(10), Asking{}, nil)
	testkit.Must(t, err)
	if _, err := client.Ask(testkit.Within(t), question(10), Asking{}, nil); err == nil {
		t.Error("a refused round was answered")
	}
	_, err = client.Ask(testkit.Within(t), &conclavev1.Round{Run: "r", Number: 7, Kind: "fit"},
		Asking{Reduced: true}, nil)
	testkit.Must(t, err)
	client.tracer.Close()
	spans := collector.Spans()
	if len(spans) != 2 || spans[0].GetName() != "ask" || spans[0].GetStatus().GetMessage() != "" ||
		spans[1].GetStatus().GetMessage() != "budget" {
		t.Fatalf("spans %v", spans)
	}
	first, again, refused, fit := testkit.Receive(t, told), testkit.Receive(t, told), testkit.Receive(t, told),
		testkit.Receive(t, told)
	if first == "" || first != again || refused == "" || refused == first || fit != "" {
		t.Errorf("the aggregator was told %q, %q, %q and of a fit %q", first, again, refused, fit)
	}
	if strings.Contains(collector.Text(), "tell-tale") {
		t.Error("the words of a refusal are in a span")
	}
}
