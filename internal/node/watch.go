package node

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

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

// watch is what a site's operator sees of its node: an audit log, metrics, traces, and a listener for probes. All
// except the metrics exist only while Run runs.
type watch struct {
	metrics  *metrics
	auditLog *auditlog.Log
	tracer   *tracing.Tracer
	level    *zap.AtomicLevel // of the log; nil if the listener may not change it
	monitor  atomic.Pointer[monitor.Server]
}

// peerRecord names the aggregator at the other end of a stream, for the audit log.
type peerRecord struct{ name, certificate string }

// ready reports whether the node can be asked.
func (n *Node) ready(context.Context) (string, error) {
	if err := n.watch.auditLog.Check(); err != nil {
		return "", err
	}
	if !n.watch.metrics.connected.Load() {
		return "", errors.New("not connected to the aggregator")
	}
	if g := n.policy.enforcer; g != nil {
		if err := g.Check(); err != nil {
			return "", err
		}
	}
	return "connected", nil
}

// ControlLevel lets the control port of Config.HTTP change the level of the node's log. Call
// it before Run.
func (n *Node) ControlLevel(level zap.AtomicLevel) { n.watch.level = &level }

// MonitorAddr is the address for probes and metrics while Run runs, nil if Config.HTTP names none.
func (n *Node) MonitorAddr() net.Addr {
	if server := n.watch.monitor.Load(); server != nil {
		return server.Addr()
	}
	return nil
}

// open opens the audit log and the listener for the time of Run.
func (w *watch) open(
	ctx context.Context, c Config, ready func(context.Context) (string, error), log *zap.Logger,
) (closeAll func() error, err error) {
	role, name := string(certs.RoleNode), c.Site+"/"+c.Node
	if w.auditLog, err = auditlog.Open(c.AuditLog, role, name, log); err != nil {
		return nil, err
	}
	server, err := monitor.Start(ctx, c.HTTP, monitor.Options{
		Ready: ready, Metrics: w.metrics.registry, Level: w.level, Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, w.auditLog.Close())
	}
	w.monitor.Store(server)
	if w.tracer, err = tracing.Start(c.Traces, role, name, log); err != nil {
		return nil, errors.Join(err, server.Close(), w.auditLog.Close())
	}
	return func() error {
		w.tracer.Close()
		return errors.Join(server.Close(), w.auditLog.Close())
	}, nil
}

// audit writes a line about the aggregator at the other end of the stream.
func (n *Node) audit(e auditlog.Entry) error {
	e.Peer, e.Certificate, e.Dataset = n.peer.name, n.peer.certificate, n.cfg.Dataset
	return n.watch.auditLog.Write(e)
}

// meet records the peer of a stream.
func (n *Node) meet(stream workStream) {
	n.peer = peerRecord{}
	if p, ok := peer.FromContext(stream.Context()); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			n.peer.name, n.peer.certificate = certs.PeerName(info.State)
		}
	}
}
