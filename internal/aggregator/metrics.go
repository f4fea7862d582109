package aggregator

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/monitor"
)

// metrics are what an operator's Prometheus sees. Nothing in them depends on records but
// through releases: they count requests, nodes and teachers by their names and by what
// the student asked, and costs as they stand in the ledger. There is no count of answers
// or of passes over the nodes and none of votes, and no time of a fit: how many passes
// that took depends on the records.
type metrics struct {
	registry *prometheus.Registry

	released      *prometheus.CounterVec
	repeated      prometheus.Counter
	refused       *prometheus.CounterVec
	ended         *prometheus.CounterVec
	duration      *prometheus.HistogramVec
	joined        *prometheus.CounterVec
	nodesRefused  *prometheus.CounterVec
	rejected      *prometheus.CounterVec
	putOut        prometheus.Counter
	etcd          *prometheus.HistogramVec
	inflight      *prometheus.GaugeVec
	calls         *prometheus.CounterVec
	auditFailures prometheus.Counter
	tlsRefused    *prometheus.CounterVec
	tlsSuppressed prometheus.Counter
}

// newMetrics makes the server's metrics with those of its state.
func newMetrics(s *Server) *metrics {
	m := &metrics{registry: monitor.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.released = counter("conclave_rounds_released_total", "Rounds answered and charged, as in the ledger.", "dataset", "purpose")
	m.repeated = counter("conclave_rounds_repeated_total", "Stored answers handed out again, at no cost.").WithLabelValues()
	m.refused = counter("conclave_rounds_refused_total", "Rounds refused before any node saw them.", "reason")
	m.ended = counter("conclave_rounds_ended_total", "Rounds asked of nodes that ended without a release.", "reason")
	m.duration = histogram("conclave_round_duration_seconds", "From a round's begin to its charge, waiting for a quorum and training included: the student that waits sees the same. Fits have none.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "purpose")
	m.joined = counter("conclave_nodes_joined_total", "Nodes that joined, each time they did.", "dataset")
	m.nodesRefused = counter("conclave_nodes_refused_total", "Nodes that were not let in.", "reason")
	m.rejected = counter("conclave_messages_rejected_total", "Messages of nodes that were not counted: oversized, malformed, out_of_range, overflow, duplicate, foreign, unasked, protocol, and as part of normal work refusal (by the node), late, stale and waiting (for its site).", "kind")
	m.putOut = counter("conclave_nodes_put_out_total", "Nodes and sites that are let in no more for a while, because too much of what they sent was rejected.").WithLabelValues()
	m.etcd = histogram("conclave_etcd_request_seconds", "Requests to etcd.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}, "method", "code")
	m.inflight = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "conclave_grpc_inflight_calls", Help: "Calls being served; a node's stream is one."}, []string{"method"})
	m.registry.MustRegister(m.inflight)
	m.calls = counter("conclave_grpc_calls_total", "Calls that ended, by gRPC's code.", "method", "code")
	m.auditFailures = counter("conclave_auditlog_failures_total", "Lines of the audit log that were lost; each is named in the log.").WithLabelValues()
	m.tlsRefused = counter("conclave_tls_refused_total", "Connections refused in the handshake.", "reason")
	m.tlsSuppressed = counter("conclave_tls_refusals_suppressed_total", "Of these, without a line of their own in the audit log because there were too many.").WithLabelValues()
	m.registry.MustRegister(&stateCollector{server: s}, &certificateCollector{server: s})
	return m
}

// charged counts a release. The time of a fit is kept back: the number of its passes
// depends on the records.
func (m *metrics) charged(e *execution, entry ledger.Entry) {
	m.released.WithLabelValues(e.dataset.record.Name, entry.Purpose).Inc()
	if _, passes := e.question.(gatherer); !passes {
		m.duration.WithLabelValues(entry.Purpose).Observe(time.Since(e.began).Seconds())
	}
}

// putOutReason is the reason of a node that is out for a while.
const putOutReason = "put_out"

// reason is a refusal as a label.
func reason(err error) string {
	if errors.Is(err, coordinator.ErrWentBack) {
		return "ledger_went_back"
	}
	switch codeOf(err) {
	case codes.ResourceExhausted:
		return "budget"
	case codes.InvalidArgument:
		return "malformed"
	case codes.FailedPrecondition, codes.AlreadyExists:
		return "not_allowed"
	case codes.PermissionDenied, codes.Unauthenticated:
		return "permission"
	case codes.NotFound:
		return "unknown"
	case codes.Unavailable:
		return "unavailable"
	case codes.Canceled, codes.DeadlineExceeded:
		return "gone"
	}
	return "internal"
}

// observeEtcd takes the time of a request.
func (m *metrics) observeEtcd(method string, took time.Duration, err error) {
	m.etcd.WithLabelValues(path.Base(method), status.Code(err).String()).Observe(took.Seconds())
}

// begin counts a call until the function it returns is called.
func (m *metrics) begin(method string) func(error) {
	method = path.Base(method)
	m.inflight.WithLabelValues(method).Inc()
	return func(err error) {
		m.inflight.WithLabelValues(method).Dec()
		m.calls.WithLabelValues(method, status.Code(err).String()).Inc()
	}
}

func (m *metrics) unary(ctx context.Context, q any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	done := m.begin(info.FullMethod)
	r, err := handler(ctx, q)
	done(err)
	return r, err
}

func (m *metrics) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	done := m.begin(info.FullMethod)
	err := handler(srv, stream)
	done(err)
	return err
}
