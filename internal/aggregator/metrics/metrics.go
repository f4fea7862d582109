// Package metrics is what an operator's Prometheus sees of an aggregator. It depends on records only through
// releases: it counts requests, nodes and teachers by name, and costs from the ledger. It has no count of answers,
// votes or passes over nodes, and no duration of a fit: a fit's hundreds of passes would reveal the number of records
// more finely than one round does.
package metrics

import (
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/monitor"
)

// BannedReason is the reason of a node that is refused because it is banned.
const BannedReason = "banned"

// Metrics are the metrics of one server.
type Metrics struct {
	Registry *prometheus.Registry
	Rounds   Rounds
	Nodes    Nodes
	Port     Port

	auditFailures prometheus.Counter
	leftOut       *prometheus.CounterVec
	etcd          *prometheus.HistogramVec
}

// Rounds counts events of rounds.
type Rounds struct {
	released, refused, ended *prometheus.CounterVec
	repeated                 prometheus.Counter
	duration                 *prometheus.HistogramVec
}

// Nodes counts events of nodes and their messages.
type Nodes struct {
	joined, refused, rejected *prometheus.CounterVec
	banned                    prometheus.Counter
}

// Port counts connections and calls.
type Port struct {
	tlsRefused    *prometheus.CounterVec
	tlsSuppressed prometheus.Counter
	cut           *prometheus.CounterVec
	inflight      *prometheus.GaugeVec
	calls         *prometheus.CounterVec
}

// New registers all metrics except the server's state; see [Metrics.ShowState].
func New() *Metrics {
	m := &Metrics{Registry: monitor.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.Registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.Registry.MustRegister(v)
		return v
	}
	m.Rounds = Rounds{
		released: counter("conclave_rounds_released_total", "Rounds answered and charged, by the ledger.",
			"dataset", "purpose"),
		repeated: counter("conclave_rounds_repeated_total",
			"Stored answers returned again, at no cost.").WithLabelValues(),
		refused: counter("conclave_rounds_refused_total", "Rounds refused before they reached a node.", "reason"),
		ended: counter("conclave_rounds_ended_total", "Rounds sent to nodes that ended without a release.",
			"reason"),
		duration: histogram("conclave_round_duration_seconds",
			"Time from the start of a round to its charge, including the wait for a quorum and training, as the "+
				"student sees it. Fits are not counted.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "purpose"),
	}
	m.Nodes = Nodes{
		joined:  counter("conclave_nodes_joined_total", "Joins of nodes.", "dataset"),
		refused: counter("conclave_nodes_refused_total", "Nodes that were refused at join.", "reason"),
		rejected: counter("conclave_messages_rejected_total",
			"Messages of nodes that were rejected: oversized, malformed, out_of_range, duplicate, foreign, unasked, "+
				"protocol; or normal: refusal (by the node), late, stale and waiting (for its site).", "kind"),
		banned: counter("conclave_nodes_banned_total",
			"Nodes and sites that are banned for a while, because too many of their messages were rejected.",
		).WithLabelValues(),
	}
	m.etcd = histogram("conclave_etcd_request_seconds", "Requests to etcd.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}, "method", "code")
	m.auditFailures = counter("conclave_auditlog_failures_total",
		"Lines of the audit log that were lost; the process log has an error for each.").WithLabelValues()
	m.leftOut = counter("conclave_auditlog_left_out_total",
		"Lines that were left out of the audit log because one certificate caused too many: refusal, or passage "+
			"(joins and leaves of a node).", "reason")
	m.Port = Port{
		tlsRefused: counter("conclave_tls_refused_total", "Connections refused in the TLS handshake.", "reason"),
		tlsSuppressed: counter("conclave_tls_refusals_suppressed_total",
			"Refused connections without a line of their own in the audit log, because there were too "+
				"many.").WithLabelValues(),
		cut: counter("conclave_connections_cut_total",
			"Connections of peers that were closed: quota (too many bytes of incomplete or unread messages), stopped "+
				"(within a message) or connections (too many for their certificate).", "reason"),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "conclave_grpc_inflight_calls", Help: "Calls in progress; each stream of a node counts as one.",
		}, []string{"method"}),
		calls: counter("conclave_grpc_calls_total", "Finished calls, by gRPC status code.", "method", "code"),
	}
	m.Registry.MustRegister(m.Port.inflight)
	return m
}

// AuditFailure counts a lost line of the audit log.
func (m *Metrics) AuditFailure() { m.auditFailures.Inc() }

// LeftOut counts omitted lines of the audit log; 0 makes the reason visible.
func (m *Metrics) LeftOut(reason string, lines int) {
	m.leftOut.WithLabelValues(reason).Add(float64(lines))
}

// Etcd observes the duration of a request to etcd.
func (m *Metrics) Etcd(method string, took time.Duration, err error) {
	m.etcd.WithLabelValues(path.Base(method), status.Code(err).String()).Observe(took.Seconds())
}

// Released counts a release.
func (r Rounds) Released(dataset, purpose string) { r.released.WithLabelValues(dataset, purpose).Inc() }

// Took observes the time of a round from its start to its charge. It must not be called for a fit.
func (r Rounds) Took(purpose string, d time.Duration) {
	r.duration.WithLabelValues(purpose).Observe(d.Seconds())
}

// Repeated counts a stored release that was returned again.
func (r Rounds) Repeated() { r.repeated.Inc() }

// Refused counts a round that was refused before any node saw it, by a reason of [fault.Reason].
func (r Rounds) Refused(reason string) { r.refused.WithLabelValues(reason).Inc() }

// Ended counts a round that nodes were asked but that ended without a release, by a reason of [fault.Reason].
func (r Rounds) Ended(reason string) { r.ended.WithLabelValues(reason).Inc() }

// Joined counts a node that joined.
func (n Nodes) Joined(dataset string) { n.joined.WithLabelValues(dataset).Inc() }

// Refused counts a node that was refused, by a reason of [fault.Reason] or BannedReason.
func (n Nodes) Refused(reason string) { n.refused.WithLabelValues(reason).Inc() }

// Rejected counts a message that was rejected.
func (n Nodes) Rejected(kind fault.Kind) { n.rejected.WithLabelValues(string(kind)).Inc() }

// Banned counts a node or site that is banned.
func (n Nodes) Banned() { n.banned.Inc() }

// Refused counts connections refused in the handshake; 0 makes the reason visible.
func (p Port) Refused(reason string, connections int) {
	p.tlsRefused.WithLabelValues(reason).Add(float64(connections))
}

// Suppressed counts a refusal that got no line of its own in the audit log.
func (p Port) Suppressed() { p.tlsSuppressed.Inc() }

// Cut counts connections that were closed because they use too much memory or are too many; 0 makes the reason
// visible.
func (p Port) Cut(reason string, connections int) {
	p.cut.WithLabelValues(reason).Add(float64(connections))
}

// Begin starts a call; the returned function ends it with the outcome.
func (p Port) Begin(method string) (end func(error)) {
	method = path.Base(method)
	p.inflight.WithLabelValues(method).Inc()
	return func(err error) {
		p.inflight.WithLabelValues(method).Dec()
		p.calls.WithLabelValues(method, status.Code(err).String()).Inc()
	}
}
