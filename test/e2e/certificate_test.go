package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A node's certificate expires while its stream is open. If a renewed one exists the node is back at once; otherwise
// it waits for one. (Its file comes first among those that wait, since it takes longest.)
func TestANodeWhoseCertificateExpiresComesBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := newAuthority(t, c)
	a.enrol(certs.RoleAggregator, "a1", "--hosts", "127.0.0.1")
	// brief enrols or renews north for a few seconds, which no command does.
	brief := func(choice request.KeyChoice, validity time.Duration) {
		t.Helper()
		q, err := request.New(a.site("north"), certs.RoleNode, "north", nil, choice)
		testkit.Must(t, err)
		issued, err := authority.Approve(a.dir, q, validity)
		testkit.Must(t, err)
		ca := testkit.Read(t, filepath.Join(a.dir, "ca.crt"))
		if _, err := request.Install(a.site("north"), certs.RoleNode, "north", issued.PEM, ca); err != nil {
			t.Fatal(err)
		}
	}
	aggregator := c.startAggregator(c.aggregatorFile(a.tls(certs.RoleAggregator, "a1")))
	aggregator.awaitLog("listening", nil)
	brief(request.FirstKey, 30*time.Second)
	north := c.startNode("north", a.tls(certs.RoleNode, "north"))
	awaitJoins(north, 1)
	brief(request.NextKey, 55*time.Second) // in time
	awaitJoins(north, 2)                   // by itself, when the first one ends
	north.await("its certificate to end", func() bool { return north.said("issue a new one") })
	if n := len(north.logged("joined")); n != 2 {
		t.Errorf("it joined %d times", n)
	}
	brief(request.SameKey, time.Hour) // too late
	awaitJoins(north, 3)
	stop(north, aggregator)
}
