package dial

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

var loopback = []string{"127.0.0.1"}

// open starts a stream that lasts until something ends it.
func open(t *testing.T, conn *Conn) healthpb.Health_WatchClient {
	t.Helper()
	stream, err := healthpb.NewHealthClient(conn).Watch(testkit.Within(t), &healthpb.HealthCheckRequest{})
	testkit.Must(t, err)
	_, err = stream.Recv()
	testkit.Must(t, err)
	return stream
}

// A node leaves an aggregator whose certificate is revoked at once, also without traffic, and connects again when the
// aggregator has another certificate.
func TestARevokedAggregatorIsLeft(t *testing.T) {
	t.Parallel()
	a := newAggregators(t)
	address, stop := a.serve("first", "127.0.0.1", "127.0.0.1:0")
	defer stop()
	conn := a.connect(address, "")
	stream := open(t, conn)
	_, err := authority.Revoke(a.dir, authority.Revocation{Name: "first", Reason: certs.ReasonKeyCompromise})
	testkit.Must(t, err)
	began := time.Now()
	_, err = stream.Recv()
	if took := time.Since(began); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "revoked") ||
		took > time.Minute {
		t.Errorf("after %v: %v", took, err)
	}
	_, err = healthpb.NewHealthClient(conn).Check(testkit.Within(t), &healthpb.HealthCheckRequest{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("dialled again: %v", err)
	}
	if err := conn.Probe(testkit.Within(t)); !errors.Is(err, certs.ErrRevoked) {
		t.Errorf("probe: %v", err)
	}
	certstest.Reissue(t, a.dir, certs.RoleAggregator, "first", loopback, time.Hour)
	ask(t, conn)
}

// So is one whose certificate expires. One that was renewed in time is not even noticed.
func TestAnAggregatorWhoseCertificateEndsIsLeft(t *testing.T) {
	t.Parallel()
	a := newAggregators(t)
	testkit.Must(t, authority.Issue(a.dir, certs.RoleAggregator, "brief", loopback, 30*time.Second))
	address, stop := a.serve("brief", "127.0.0.1", "127.0.0.1:0")
	defer stop()
	conn := a.connect(address, "")
	stream := open(t, conn)
	certstest.Reissue(t, a.dir, certs.RoleAggregator, "brief", loopback, time.Hour) // the stream stays with the old one
	_, err := stream.Recv()
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "expired") {
		t.Errorf("got %v", err)
	}
	ask(t, conn)
}
