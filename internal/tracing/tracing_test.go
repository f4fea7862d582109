package tracing

import (
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/tracetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.WaitTogether()
	goleak.VerifyTestMain(m)
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"none":                  {Config{}, ""},
		"TLS":                   {Config{Endpoint: "otel.example:4317"}, ""},
		"its own authority":     {Config{Endpoint: "otel.example:4317", CA: "ca.crt"}, ""},
		"in the clear":          {Config{Endpoint: "127.0.0.1:4317", Insecure: true}, ""},
		"no endpoint":           {Config{Insecure: true}, "endpoint is missing"},
		"no endpoint, and a ca": {Config{CA: "ca.crt"}, "endpoint is missing"},
		"no port":               {Config{Endpoint: "otel.example"}, "not an address"},
		"no host":               {Config{Endpoint: ":4317"}, "not an address"},
		"a URL":                 {Config{Endpoint: "http://otel.example:4317"}, "not an address"},
		"port 0":                {Config{Endpoint: "otel.example:0"}, "not an address"},
		"both": {Config{Endpoint: "otel.example:4317", Insecure: true, CA: "ca.crt"},
			"either insecure or ca"},
	} {
		err := c.config.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Start(Config{Endpoint: "a:1", CA: filepath.Join(t.TempDir(), "none")}, "node", "n",
		zap.NewNop()); err == nil {
		t.Error("a missing ca was taken")
	}
	empty := filepath.Join(t.TempDir(), "empty")
	testkit.Must(t, os.WriteFile(empty, nil, 0o600))
	if _, err := Start(Config{Endpoint: "a:1", CA: empty}, "node", "n", zap.NewNop()); err == nil ||
		!strings.Contains(err.Error(), "no PEM") {
		t.Errorf("an empty ca: %v", err)
	}
}

// Without an endpoint there is no tracer, and everything else works.
func TestNoTracer(t *testing.T) {
	tracer, err := Start(Config{}, "node", "n", zap.NewNop())
	if tracer != nil || err != nil {
		t.Fatal(tracer, err)
	}
	ctx, span := tracer.Begin(t.Context(), "x", About("d", "r", 1, "")...)
	span.Note(Teachers(3))
	span.End("failed")
	if ctx != t.Context() {
		t.Error("another context")
	}
	tracer.Close()
}

// Spans arrive with their content and sender; nothing about the machine is added.
func TestSpansArrive(t *testing.T) {
	var r tracetest.Collector
	tracer, err := Start(Config{Endpoint: r.Serve(t, ""), Insecure: true}, "aggregator", "agg-1", zap.NewNop())
	testkit.Must(t, err)
	ctx, whole := tracer.Begin(t.Context(), "round", About("flchain", "run-1", 7, "labels")...)
	_, part := tracer.Begin(ctx, "collect")
	part.End("")
	whole.Note(Teachers(12))
	whole.End("budget")
	whole.End("") // the first counts
	testkit.Must(t, tracer.provider.ForceFlush(testkit.Within(t)))
	tracer.Close()
	got := r.Spans()
	if len(got) != 2 || got[0].GetName() != "collect" || got[1].GetName() != "round" {
		t.Fatalf("got %v", got)
	}
	if string(got[0].GetParentSpanId()) != string(got[1].GetSpanId()) || len(got[1].GetParentSpanId()) != 0 {
		t.Error("collect is not within round")
	}
	if diff := cmp.Diff(map[string]string{"conclave.dataset": "flchain", "conclave.run": "run-1", "conclave.round": "",
		"conclave.purpose": "labels", "conclave.teachers": ""}, values(got[1].GetAttributes())); diff != "" {
		t.Error(diff)
	}
	for _, a := range got[1].GetAttributes() {
		if want := map[string]int64{"conclave.round": 7,
			"conclave.teachers": 12}[a.GetKey()]; a.GetValue().GetIntValue() != want {
			t.Errorf("%s is %v", a.GetKey(), a.GetValue())
		}
	}
	if got[1].GetStatus().GetMessage() != "budget" || got[0].GetStatus().GetMessage() != "" {
		t.Errorf("status %v and %v", got[1].GetStatus(), got[0].GetStatus())
	}
	if diff := cmp.Diff(map[string]string{"service.namespace": "conclave", "service.name": "conclave-aggregator",
		"service.instance.id": "agg-1"}, values(r.Resource())); diff != "" {
		t.Error(diff)
	}
}

// A collector with a certificate is found by the authority that is set, and by no other.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "collector", []string{"127.0.0.1"}, time.Hour))
	files := certs.IssuedFiles(dir, certs.RoleAggregator, "collector")
	creds, err := credentials.NewServerTLSFromFile(files.Cert, files.Key)
	testkit.Must(t, err)
	for ca, want := range map[string]int{files.CA: 1, "": 0} {
		var r tracetest.Collector
		core, log := observer.New(zap.InfoLevel)
		tracer, err := Start(Config{Endpoint: r.Serve(t, "", grpc.Creds(creds)), CA: ca}, "node", "n", zap.New(core))
		testkit.Must(t, err)
		_, span := tracer.Begin(t.Context(), "x")
		span.End("")
		tracer.Close()
		if len(r.Spans()) != want || want == 0 && log.FilterMessageSnippet("traces are lost").Len() != 1 {
			t.Errorf("ca %q: %d spans, log %v", ca, len(r.Spans()), log.All())
		}
	}
}

// A collector that is away, or that takes connections and never answers, holds nothing up:
// spans cost no time, and the end is bounded. That they are lost is told once.
func TestACollectorThatIsAway(t *testing.T) {
	t.Parallel()
	away := testkit.FreeAddress(t, "127.0.0.1")
	mute, err := net.Listen("tcp", "127.0.0.1:0") // its backlog takes connections
	testkit.Must(t, err)
	t.Cleanup(func() { mute.Close() })
	slow := &tracetest.Collector{Mute: true}
	for name, endpoint := range map[string]string{"away": away, "mute": mute.Addr().String(),
		"slow": slow.Serve(t, "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core, log := observer.New(zap.InfoLevel)
			// The collector may take longer than the test waits, so that only the bound on the end can end it.
			tracer, err := start(Config{Endpoint: endpoint, Insecure: true}, "node", "n", 3*testkit.Patience,
				zap.New(core))
			testkit.Must(t, err)
			began := time.Now()
			for range 5 * queue {
				_, span := tracer.Begin(context.Background(), "x")
				span.End("")
			}
			tracer.Close()
			if took := time.Since(began); took > testkit.Patience {
				t.Errorf("%d spans and the end took %v", 5*queue, took)
			}
			if n := log.FilterMessageSnippet("traces are lost").Len(); n != 1 {
				t.Errorf("told %d times: %v", n, log.All())
			}
		})
	}
}

// A collector that comes back receives the later spans.
func TestACollectorThatComesBack(t *testing.T) {
	t.Parallel()
	address := testkit.FreeAddress(t, "127.0.0.1")
	core, log := observer.New(zap.InfoLevel)
	tracer, err := Start(Config{Endpoint: address, Insecure: true}, "node", "n", zap.New(core))
	testkit.Must(t, err)
	defer tracer.Close()
	send := func() {
		_, span := tracer.Begin(context.Background(), "x")
		span.End("")
		testkit.Must(t, tracer.provider.ForceFlush(t.Context()))
	}
	send()
	if log.FilterMessageSnippet("lost").Len() != 1 {
		t.Errorf("log: %v", log.All())
	}
	var r tracetest.Collector
	r.Serve(t, address)
	testkit.Eventually(t, "spans", func() bool {
		send()
		return len(r.Spans()) > 0 && log.FilterMessageSnippet("accepts traces again").Len() > 0
	})
	if log.FilterMessageSnippet("accepts traces again").Len() != 1 || log.FilterMessageSnippet("lost").Len() != 1 {
		t.Errorf("log: %v", log.All())
	}
}

// A call carries its span along; an invented span is neither a span nor an error.
func TestSpansGoAlong(t *testing.T) {
	var r tracetest.Collector
	tracer, err := Start(Config{Endpoint: r.Serve(t, ""), Insecure: true}, "student", "s", zap.NewNop())
	testkit.Must(t, err)
	defer tracer.Close()
	ctx, span := tracer.Begin(t.Context(), "ask")
	defer span.End("")
	sent, _ := metadata.FromOutgoingContext(Outgoing(ctx))
	got := trace.SpanContextFromContext(Incoming(metadata.NewIncomingContext(t.Context(), sent)))
	if want := trace.SpanContextFromContext(ctx); got.TraceID() != want.TraceID() || got.SpanID() != want.SpanID() ||
		!want.IsValid() {
		t.Errorf("%v arrives as %v", want, got)
	}
	if sent, _ := metadata.FromOutgoingContext(Outgoing(t.Context())); len(sent) != 0 {
		t.Errorf("without a span goes %v", sent)
	}
	for _, made := range []string{"", "x", strings.Repeat("0", 55),
		"00-" + strings.Repeat("f", 32) + "-" + strings.Repeat("0", 16) + "-01", strings.Repeat("a-", 4000)} {
		ctx := Incoming(metadata.NewIncomingContext(t.Context(), metadata.Pairs("traceparent", made)))
		if trace.SpanContextFromContext(ctx).IsValid() {
			t.Errorf("%.60q is a span", made)
		}
	}
}

func values(attributes []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		all[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return all
}
