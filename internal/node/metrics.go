package node

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conclave-dp/conclave/internal/monitor"
)

// metrics are what the site's operator can see of a node. Their times reveal roughly how many records there are, so
// they are only for the site. A round counts once, however often it is asked: a fit takes hundreds of passes.
type metrics struct {
	registry  *prometheus.Registry
	answered  *prometheus.CounterVec
	refused   prometheus.Counter
	withdrawn prometheus.Counter
	joined    prometheus.Counter
	duration  *prometheus.HistogramVec

	connected atomic.Bool // welcomed on a live stream
	welcomed  atomic.Bool // once since the start
	last      asking      // last answer
}

// asking is the part of a round's question that may be counted.
type asking struct {
	run     string
	round   uint64
	purpose string
	// passes is set if a round takes many passes.
	passes bool
}

func newMetrics() *metrics {
	m := &metrics{
		registry: monitor.NewRegistry(),
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "conclave_node_answered_total", Help: "Rounds answered, each once.",
		}, []string{"purpose"}),
		refused:   counter("conclave_node_refused_total", "Rounds that this node refused."),
		withdrawn: counter("conclave_node_withdrawn_total", "Rounds that continued without this node."),
		joined:    counter("conclave_node_joins_total", "Number of joins of this node."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "conclave_node_training_seconds", Help: "Time to train and answer a round. For the site only.",
			Buckets: []float64{.001, .01, .1, 1, 10, 100, 1000},
		}, []string{"purpose"}),
	}
	m.registry.MustRegister(m.answered, m.refused, m.withdrawn, m.joined, m.duration,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "conclave_node_connected_state", Help: "1 while this node has joined the aggregator.",
		}, func() float64 {
			if m.connected.Load() {
				return 1
			}
			return 0
		}))
	return m
}

// welcome records that the aggregator welcomed the node.
func (m *metrics) welcome() {
	m.connected.Store(true)
	m.welcomed.Store(true)
	m.joined.Inc()
}

// count counts an answer unless it repeats the last one, and reports whether it did.
func (m *metrics) count(a asking, took time.Duration) bool {
	if a == m.last {
		return false
	}
	m.last = a
	m.answered.WithLabelValues(a.purpose).Inc()
	if !a.passes {
		m.duration.WithLabelValues(a.purpose).Observe(took.Seconds())
	}
	return true
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}
