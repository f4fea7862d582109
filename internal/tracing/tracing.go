// Package tracing sends OpenTelemetry spans of rounds to a collector, over OTLP on gRPC.
//
// [Start] returns a [Tracer]; a nil one does nothing, so that a role without traces needs no
// checks. Spans wait in a queue of bounded length and are dropped where the collector does
// not take them: nothing ever waits for it but [Tracer.Close], for a bounded time.
//
// A span is a name, a time, and names: of datasets and runs, numbers of rounds, purposes. It
// holds no record, no vote and no sum. Its time is what roles must think about: what takes
// longer the more records there are, or the larger a drawn noise is, must have no span of
// its own, or one that stays where the records are. See docs/traces.md.
package tracing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

const (
	// queue bounds the spans that wait for the collector; more are dropped.
	queue = 2048
	// exportEvery is how long a span waits at most before it is sent, and exportTimeout how
	// long a collector may take.
	exportEvery   = 2 * time.Second
	exportTimeout = 5 * time.Second
	// closeTimeout bounds the wait for the last spans.
	closeTimeout = 3 * time.Second
)

// Tracer makes spans of one process.
type Tracer struct {
	provider *sdktrace.TracerProvider
	sink     *lossy
	tracer   trace.Tracer
}

// Start begins to send spans of a process of a role and a name. It does not wait for the
// collector. Without an endpoint it returns nil.
func Start(c Config, role, name string, log *zap.Logger) (*Tracer, error) {
	return start(c, role, name, exportTimeout, log)
}

// start is Start with the time that the collector may take for some spans.
func start(c Config, role, name string, within time.Duration, log *zap.Logger) (*Tracer, error) {
	if err := c.Validate(); err != nil || c.Endpoint == "" {
		return nil, err
	}
	// Nothing is sent again: the next spans come soon.
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(c.Endpoint), otlptracegrpc.WithTimeout(within),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}),
	}
	if c.Insecure {
		options = append(options, otlptracegrpc.WithInsecure())
	} else {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if c.CA != "" {
			pem, err := os.ReadFile(c.CA)
			if err != nil {
				return nil, fmt.Errorf("traces: ca: %w", err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("traces: ca: %s has no PEM certificate", c.CA)
			}
		}
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(config)))
	}
	exporter, err := otlptracegrpc.New(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	sink := &lossy{SpanExporter: exporter, log: log, endpoint: c.Endpoint}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		// The resource names only the role and name of the process: no host, no user, no command line.
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.namespace", "conclave"), attribute.String("service.name", "conclave-"+role),
			attribute.String("service.instance.id", name),
		)),
		sdktrace.WithBatcher(sink, sdktrace.WithMaxQueueSize(queue), sdktrace.WithBatchTimeout(exportEvery),
			sdktrace.WithExportTimeout(within)),
	)
	return &Tracer{provider: provider, sink: sink, tracer: provider.Tracer("github.com/conclave-dp/conclave")}, nil
}

// Close sends the waiting spans, for at most three seconds.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// Spans that still wait when the time is over are lost as well.
	if err := t.provider.Shutdown(ctx); err != nil {
		t.sink.tell(err)
	}
}

// lossy is an exporter whose failures are told once, and not by way of OpenTelemetry's
// handler, which all of a process share.
type lossy struct {
	sdktrace.SpanExporter
	log      *zap.Logger
	endpoint string
	failing  atomic.Bool
}

func (l *lossy) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	l.tell(l.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// tell logs a change: spans are lost, or are accepted again.
func (l *lossy) tell(err error) {
	if was := l.failing.Swap(err != nil); err != nil && !was {
		l.log.Warn("traces are lost: the collector does not accept them", zap.String("endpoint", l.endpoint),
			zap.Error(err))
	} else if err == nil && was {
		l.log.Info("the collector accepts traces again", zap.String("endpoint", l.endpoint))
	}
}

// Span is an operation whose time is recorded. A nil Span records nothing.
type Span struct{ span trace.Span }

// Begin begins a span within that of the context, or of its own.
func (t *Tracer) Begin(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(about...))
	return ctx, &Span{span}
}

// Note adds attributes to the span.
func (s *Span) Note(about ...attribute.KeyValue) {
	if s != nil {
		s.span.SetAttributes(about...)
	}
}

// End ends a span; failed is a word for why it failed, empty when it did not. Only the first
// end counts.
func (s *Span) End(failed string) {
	if s == nil {
		return
	}
	if failed != "" {
		s.span.SetStatus(codes.Error, failed)
	}
	s.span.End()
}

// About are the attributes of a round.
func About(dataset, run string, round uint64, purpose string) []attribute.KeyValue {
	about := []attribute.KeyValue{attribute.String("conclave.run", run),
		attribute.Int64("conclave.round", int64(round))}
	if dataset != "" {
		about = append(about, attribute.String("conclave.dataset", dataset))
	}
	if purpose != "" {
		about = append(about, attribute.String("conclave.purpose", purpose))
	}
	return about
}

// Teachers is how many took part.
func Teachers(n uint32) attribute.KeyValue { return attribute.Int64("conclave.teachers", int64(n)) }

// The span of a call goes along in the header traceparent (W3C Trace Context).
var propagator propagation.TraceContext

// Outgoing is a context for a call that tells the other side of its span.
func Outgoing(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	for key, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	return ctx
}

// Incoming is a context within the span that the caller sent. A span that cannot be read is ignored.
func Incoming(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{}
	if values := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(values) == 1 {
		carrier["traceparent"] = values[0]
	}
	return propagator.Extract(ctx, carrier)
}
