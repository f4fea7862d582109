package preflight

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/dial"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const step = 5 * time.Second

// checkNetwork checks the way to the aggregator: names, ports, TLS, and who leads. Standbys do not listen, so one
// answering address is enough.
func (c *checker) checkNetwork(ctx context.Context) {
	target, err := dial.Parse(c.config.Aggregator, c.config.ServerName)
	switch {
	case c.o.Offline:
		c.skip("network", "skipped (--offline)")
		return
	case err != nil:
		c.skip("network", "the configuration names no aggregator")
		return
	}
	answered, open := 0, 0
	for _, address := range strings.Split(target.String(), ",") {
		reached, good := c.checkAddress(ctx, strings.TrimSpace(address))
		if reached {
			open++
		}
		if good {
			answered++
		}
	}
	switch {
	case open == 0:
		c.add("aggregator", Problem, "start the aggregator, correct the addresses, or allow outgoing connections in "+
			"the firewall",
			"%s cannot be reached", target)
		return
	case answered == 0:
		return // reported before
	}
	c.checkLeader(ctx, target)
}

// checkAddress reports whether something listens, and whether both sides trust each other.
func (c *checker) checkAddress(ctx context.Context, address string) (reached, trusted bool) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, false // Parse has checked that it splits
	}
	within, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	if net.ParseIP(host) == nil {
		addresses, err := net.DefaultResolver.LookupHost(within, host)
		if err != nil {
			c.add("name", Problem, "correct the host name, or this machine's DNS", "%s: %v", host, err)
			return false, false
		}
		c.ok("name", "%s is %s", host, strings.Join(addresses, ", "))
	}
	raw, err := (&net.Dialer{}).DialContext(within, "tcp", address)
	if err != nil {
		c.add("port", Warning, "nothing, if it is a standby: standbys do not listen", "%v", err)
		return false, false
	}
	defer raw.Close()
	c.ok("port", "%s can be reached", address)
	if !c.trusted {
		c.skip("tls", "the certificate's files cannot be used")
		return true, false
	}
	config, err := tlsconfig.Client(c.config.TLS, cmp.Or(c.config.ServerName, host))
	if err != nil {
		c.fail("tls", err)
		return true, false
	}
	conn := tls.Client(raw, config)
	_ = conn.SetDeadline(time.Now().Add(step))
	if err := conn.HandshakeContext(within); err != nil {
		c.handshakeFailed(conn, err)
		return true, false
	}
	if err := tlsconfig.Probe(ctx, address, config); err != nil { // its verdict on our certificate comes later
		c.fail("tls", err)
		return true, false
	}
	server := conn.ConnectionState().PeerCertificates[0]
	c.ok("tls", "%s has a valid aggregator certificate, until %s", address, server.NotAfter.Format(time.RFC3339))
	c.checkDates("the aggregator's certificate", server, "tell the aggregator's operator")
	c.ok("clock", "within the validity of the aggregator's certificate; smaller errors are not noticed")
	return true, true
}

// handshakeFailed distinguishes clock differences from other failures.
func (c *checker) handshakeFailed(conn *tls.Conn, err error) {
	if errors.Is(err, certs.ErrExpired) {
		chain := conn.ConnectionState().PeerCertificates
		for _, cert := range chain[:min(1, len(chain))] {
			c.checkDates("the aggregator's certificate", cert,
				"tell the aggregator's operator, or correct this machine's clock")
		}
	}
	c.fail("tls", err)
}

func (c *checker) checkLeader(ctx context.Context, target dial.Target) {
	conn, err := target.Connect(c.config.TLS, step)
	if err != nil {
		c.fail("leader", err)
		return
	}
	defer conn.Close()
	within, cancel := context.WithTimeout(ctx, 2*step)
	defer cancel()
	health, err := healthpb.NewHealthClient(conn).Check(within,
		&healthpb.HealthCheckRequest{Service: rpc.TeacherService_ServiceDesc.ServiceName})
	switch {
	case err != nil:
		c.add("leader", Problem, "ask the aggregator's operator", "no address names the leader: %s",
			dial.Message(err))
		return
	case health.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		c.add("leader", Warning, "wait, or ask the aggregator's operator",
			"the aggregator answered %v: it is stopping, or another one becomes the leader soon", health.GetStatus())
		return
	}
	c.ok("leader", "the leader answers nodes")
	if c.site == nil {
		c.skip("dataset", "the records cannot be used, so nothing can be compared")
		return
	}
	answer, err := rpc.NewTeacherServiceClient(conn).Check(within,
		&conclavev1.CheckRequest{Hello: c.site.Hello()})
	switch {
	case status.Code(err) == codes.Unimplemented:
		c.skip("dataset", "the aggregator has an earlier version without this check: dataset, schema, unit, budget, "+
			"manifest and protocol are not compared")
	case status.Code(err) == codes.Unavailable || status.Code(err) == codes.DeadlineExceeded:
		c.add("dataset", Warning, "check again", "the aggregator did not answer: %s", dial.Message(err))
	case err != nil:
		c.fail("dataset", errors.New(dial.Message(err)))
	default:
		joined := "this node has never joined"
		if answer.GetKnown() {
			joined = "this node has already joined, with the same partitions"
		}
		c.ok("dataset", "%s at aggregator %s has this schema and unit, and a budget of epsilon %g at delta %g; "+
			"%s; teachers connected: %d",
			c.config.Dataset, answer.GetAggregator(), answer.GetEpsilon(), answer.GetDelta(),
			joined, answer.GetTeachersLive())
	}
}
