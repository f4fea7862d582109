package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// put makes a folder a copy of another one.
func put(t *testing.T, to, from string) {
	t.Helper()
	testkit.Must(t, os.RemoveAll(to))
	testkit.Must(t, os.CopyFS(to, os.DirFS(from)))
}

// single is a run of one round, in which nodes receive no ledger entry of its release before they answer.
func (c *cluster) single(name string) *process {
	c.t.Helper()
	j := job{name: name, changes: settings{"privacy": "{epsilon: 5, delta: 1e-5}", "pipeline": "embed", "pategan": "",
		"warm_start": "", "embed": "{fit: {steps: 20}, student: {hidden: 8}}"}}
	return c.startStudent(c.studentFile(c.runFile(j), c.out(name)))
}

func (c *cluster) perform(name string) {
	c.t.Helper()
	if code := c.single(name).wait(); code != 0 {
		c.t.Fatalf("the student of run %s ended with exit code %d", name, code)
	}
}

// An outdated backup of the ledger is restored: later spending would be repeated. The nodes remember, and stay away
// until the right ledger is back.
func TestAnOldBackupOfTheLedger(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	file := c.aggregatorFile()
	folder, old, newest := filepath.Join(c.dir, "etcd"), filepath.Join(c.dir, "old"), filepath.Join(c.dir, "new")
	begin := func() *process {
		t.Helper()
		aggregator := c.startAggregator(file)
		aggregator.awaitLog("listening", nil)
		return aggregator
	}
	perform := func(name string) {
		t.Helper()
		north, south := c.startSites()
		c.perform(name)
		stop(north, south)
	}

	aggregator := begin()
	perform("before")
	aggregator.stop()
	put(t, old, folder)
	aggregator = begin()
	perform("since")
	aggregator.stop()
	put(t, newest, folder)

	put(t, folder, old)
	aggregator = begin()
	refused(t, c.startNode("north"), "teacher: ", "the ledger went back", "restore a newer backup")
	aggregator.await("the aggregator to say it", func() bool { return aggregator.said("the ledger went back") })
	if stdout, stderr, code := called("teacher", "preflight", "--config", c.nodeFile("north")); code != 1 ||
		!strings.Contains(stdout+stderr, "the ledger went back") {
		t.Errorf("preflight ends with %d and says %s%s", code, stdout, stderr)
	}
	aggregator.stop()

	put(t, folder, newest)
	aggregator = begin()
	perform("after")
	aggregator.stop()

	// If the old ledger is intended, each site accepts it.
	put(t, folder, old)
	aggregator = begin()
	for _, site := range []string{"north", "south"} {
		node := c.startNode(site)
		refused(t, node, "the ledger went back", "teacher accept-ledger")
		end := regexp.MustCompile(`ends with entry (\d+) \(([0-9a-f]{64})\)`).FindStringSubmatch(node.Stderr.Text())
		if end == nil {
			t.Fatalf("the refusal does not name the ledger head:\n%s", node.Stderr.Tail(20))
		}
		accept := []string{"accept-ledger", "--config", c.nodeFile(site), "--seq", end[1], "--hash"}
		if _, stderr, code := called("teacher", append(accept, "abc")...); code != 2 {
			t.Errorf("a hash that is none: exit code %d, %s", code, stderr)
		}
		if stdout, stderr, code := called("teacher", append(accept, end[2])...); code != 0 ||
			!strings.Contains(stdout, "accepted entry "+end[1]) {
			t.Fatalf("accept-ledger ends with %d and says %s%s", code, stdout, stderr)
		}
	}
	perform("accepted")
	aggregator.stop()
}

// The same while the aggregator leads: its lease is in the backup, so it continues to lead. It remembers by itself,
// and releases nothing more.
func TestAnOldBackupUnderTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	etcd := newExternalEtcd(c, "120s") // longer than the absences
	folder, old := filepath.Join(c.dir, "member"), filepath.Join(c.dir, "old")
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	north, south := c.startSites()
	c.perform("before")
	etcd.process.kill()
	put(t, old, folder)
	etcd.start()
	c.perform("since")
	aggregator.awaitLog("run closed", func(l clustertest.Line) bool { return l.Run == "since" })
	released := len(aggregator.logged("released"))

	etcd.process.kill()
	put(t, folder, old)
	etcd.start()
	refused(t, c.single("again"), "student: ", "the ledger went back", "restore a newer backup")
	if n := len(aggregator.logged("released")); n != released {
		t.Errorf("%d releases under the old backup", n-released)
	}
	stop(north, south, aggregator, etcd.process)
}
