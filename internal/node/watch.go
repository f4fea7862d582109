package node

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/monitor"
	"github.com/conclave-dp/conclave/internal/tracing"
)

// errAudit is all that leaves the site about an audit log that cannot be written.
var errAudit = errors.New("the node cannot write its audit log; its log says why")

// watched is what an operator of the site can see of a node. Its times tell roughly how
// many records there are, so they are for the site alone. A round counts once, however
// often it is asked: how many passes a fit takes depends on all sites' records.
type watched struct {
	registry  *prometheus.Registry
	answered  *prometheus.CounterVec
	refused   prometheus.Counter
	withdrawn prometheus.Counter
	joined    prometheus.Counter
	duration  *prometheus.HistogramVec
	waiting   prometheus.Gauge // nil without a policy

	connected atomic.Bool // welcomed, and the stream lives
	welcomed  atomic.Bool // once, since the start
	last      asking      // answered last
}

// asking is what a round asks, as far as it may be counted.
type asking struct {
	run     string
	round   uint64
	purpose string
	// passes is set where how often it is asked depends on all sites' records.
	passes bool
}

func newWatched() *watched {
	w := &watched{
		registry:  monitor.NewRegistry(),
		answered:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "conclave_node_answered_total", Help: "Rounds answered, each once."}, []string{"purpose"}),
		refused:   prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_node_refused_total", Help: "Rounds that this node refused."}),
		withdrawn: prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_node_withdrawn_total", Help: "Rounds that went on without this node."}),
		joined:    prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_node_joins_total", Help: "Times the aggregator welcomed this node."}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "conclave_node_training_seconds", Help: "Training and answering a round. For the site alone.",
			Buckets: []float64{.001, .01, .1, 1, 10, 100, 1000},
		}, []string{"purpose"}),
	}
	w.registry.MustRegister(w.answered, w.refused, w.withdrawn, w.joined, w.duration,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "conclave_node_connected_state", Help: "1 while the aggregator has welcomed this node."}, func() float64 {
			if w.connected.Load() {
				return 1
			}
			return 0
		}))
	return w
}

// count counts an answer, where it is not the one before asked again; it says whether it
// was counted.
func (w *watched) count(a asking, took time.Duration) bool {
	if a == w.last {
		return false
	}
	w.last = a
	w.answered.WithLabelValues(a.purpose).Inc()
	if !a.passes {
		w.duration.WithLabelValues(a.purpose).Observe(took.Seconds())
	}
	return true
}

// ready says whether the node can be asked.
func (n *Node) ready(context.Context) (string, error) {
	if err := n.trail.Check(); err != nil {
		return "", err
	}
	if !n.watched.connected.Load() {
		return "", errors.New("not connected to the aggregator")
	}
	if n.guard != nil {
		if err := n.guard.Check(); err != nil {
			return "", err
		}
	}
	return "connected", nil
}

// ControlLevel lets the listener of Config.HTTP change the level of the node's log. Call
// it before Run.
func (n *Node) ControlLevel(level zap.AtomicLevel) { n.level = &level }

// MonitorAddr is the address for probes and metrics while Run runs, nil where Config.HTTP
// names none.
func (n *Node) MonitorAddr() net.Addr {
	if server := n.monitor.Load(); server != nil {
		return server.Addr()
	}
	return nil
}

// watch opens the audit log and the listener, for as long as Run runs.
func (n *Node) watch(ctx context.Context) (closeAll func() error, err error) {
	if n.trail, err = auditlog.Open(n.cfg.AuditLog, string(certs.RoleNode), n.cfg.Site+"/"+n.cfg.Node, n.log); err != nil {
		return nil, err
	}
	server, err := monitor.Start(ctx, n.cfg.HTTP, monitor.Options{Ready: n.ready, Metrics: n.watched.registry, Level: n.level, Log: n.log})
	if err != nil {
		return nil, errors.Join(err, n.trail.Close())
	}
	n.monitor.Store(server)
	if n.guard != nil {
		if err := n.guard.Check(); err != nil {
			n.log.Error("no round is answered until this is mended", zap.Error(err))
		}
	}
	if n.tracer, err = tracing.Start(n.cfg.Traces, string(certs.RoleNode), n.cfg.Site+"/"+n.cfg.Node, n.log); err != nil {
		return nil, errors.Join(err, server.Close(), n.trail.Close())
	}
	return func() error {
		n.tracer.Close()
		return errors.Join(server.Close(), n.trail.Close())
	}, nil
}

// audit writes a line about the aggregator at the other end of the stream.
func (n *Node) audit(e auditlog.Entry) error {
	e.Peer, e.Certificate, e.Dataset = n.peer, n.peerCertificate, n.cfg.Dataset
	return n.trail.Write(e)
}

// meet notes whom a stream leads to.
func (n *Node) meet(stream workStream) {
	n.peer, n.peerCertificate = "", ""
	if p, ok := peer.FromContext(stream.Context()); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			n.peer, n.peerCertificate = certs.PeerName(info.State)
		}
	}
}
