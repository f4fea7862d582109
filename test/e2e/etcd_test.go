package e2e

import (
	"fmt"
	"path/filepath"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// externalEtcd is an etcd in its own process, over TCP.
type externalEtcd struct {
	c       *cluster
	address string
	peers   string // its address for other members; there are none
	process *process
}

// newExternalEtcd starts an etcd for the cluster. Leadership outlives a silent leader for the lease.
func newExternalEtcd(c *cluster, lease string) *externalEtcd {
	c.t.Helper()
	e := &externalEtcd{c: c, address: testkit.FreeAddress(c.t, "127.0.0.1"),
		peers: testkit.FreeAddress(c.t, "127.0.0.1")}
	c.etcd = e.settings(lease)
	e.start()
	return e
}

// settings is the `etcd:` part of an aggregator's configuration.
func (e *externalEtcd) settings(lease string) string {
	return fmt.Sprintf("{endpoints: ['%s'], lease_ttl: %s}", e.endpoint(), lease)
}

func (e *externalEtcd) endpoint() string { return "http://" + e.address }

func (e *externalEtcd) start() {
	e.c.t.Helper()
	e.process = startRole(e.c.t, clustertest.Etcd, filepath.Join(e.c.dir, "member"), e.address+","+e.peers,
		"member=http://"+e.peers)
	e.process.awaitLog("ready", nil)
}
