package round

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The contributors of a round are checked once more before the charge.
func TestTheLastLookIsBeforeTheCharge(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "agg", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(t, authority.Issue(dir, certs.RoleNode, "north", nil, time.Hour))
	files := certs.IssuedFiles(dir, certs.RoleAggregator, "agg")
	files.Revoked = certs.RevokedFile(dir)
	credentials, err := tlsconfig.NewServerCredentials(files)
	testkit.Must(t, err)
	north := certs.IssuedFiles(dir, certs.RoleNode, "north")
	pair := testkit.Value(tls.LoadX509KeyPair(north.Cert, north.Key))
	_, session := peer.NewSessions(credentials).Begin(t.Context(), "", pair.Leaf, certs.Identity{}, peer.Caller{})
	defer session.Leave()
	n := peer.NewNode(session)
	n.ID, n.Teachers = peer.ID{Site: "north", Name: "a"}, 4
	contribute := func(e *Execution) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.contributed(n)
	}
	plain, passes, later := testExecution(t), testExecution(t), testExecution(t)
	pass := testExecution(t)
	pass.outer = passes
	contribute(plain)
	contribute(pass)
	for _, e := range []*Execution{plain, passes, later} {
		testkit.Must(t, e.revoked())
	}
	var sums cache
	sums.put(peer.NewRoom(1), &Sums{Round: 3, contributors: plain.contributors()}, "lab", 0)
	if _, cached := sums.get(3); !cached {
		t.Error("sums of nodes that are good are not cached")
	}
	_, err = authority.Revoke(dir, authority.Revocation{Role: certs.RoleNode, Name: "north",
		Reason: certs.ReasonWithdrawn})
	testkit.Must(t, err)
	testkit.Must(t, credentials.Reload())
	contribute(later) // its message was received just before
	for name, e := range map[string]*Execution{
		"a round": plain, "a round of passes": passes, "an answer under way": later,
	} {
		err := e.revoked()
		if fault.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "north/a") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, cached := sums.get(3); cached {
		t.Error("sums with the node in them are still cached")
	}
}
