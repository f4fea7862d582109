package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/test/clustertest"
)

// externalEtcd is an etcd in a process of its own, over TCP.
type externalEtcd struct {
	c       *cluster
	address string
	peers   string // where it listens for other members, of which there are none
	process *process
}

// newExternalEtcd starts an etcd and makes it the cluster's. Leadership outlives
// a leader that is silent for as long as lease says.
func newExternalEtcd(c *cluster, lease string) *externalEtcd {
	c.t.Helper()
	e := &externalEtcd{c: c, address: clustertest.FreeAddress(c.t, "127.0.0.1"),
		peers: clustertest.FreeAddress(c.t, "127.0.0.1")}
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

// A standby takes over when the leader is killed. When etcd is away for longer
// than its lease it ends with an error, and goes on where it was once both are
// back.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	etcd := newExternalEtcd(c, "3s")
	first := c.startAggregator(c.aggregatorFile(settings{"name": "first"}))
	first.awaitLog("listening", nil)
	_, audited := c.audit(etcd.endpoint())
	north, south := c.startSites()
	// It listens only when it leads, so that both can have one address here.
	standby := c.startAggregator(c.aggregatorFile(settings{"name": "second"}))
	standby.awaitLog("waiting for leadership", nil)
	c.slowDown()
	j := job{name: "standby", rounds: 20, quorum: 1}
	runFile, out := c.runFile(j), c.out(j.name)
	student := c.startStudent(c.studentFile(runFile, out))

	awaitRound(first, 3)
	if n := len(standby.logged("listening")); n != 0 {
		t.Error("the standby listens beside the leader")
	}
	first.kill()
	awaitRound(standby, 5)
	etcd.process.kill()
	refused(t, standby, "aggregator: ", "leadership lost", "etcd")
	etcd.start()
	// From here on nobody waits for a lease to end.
	standby = c.startAggregator(c.aggregatorFile(settings{"name": "second", "etcd": etcd.settings("60s")}))
	finish(t, student, out, j)
	c.repeat(runFile, out, j)
	audited(j.rounds + 1)
	stop(north, south, standby, etcd.process)
}
