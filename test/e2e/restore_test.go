package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The ledger is put back from a backup that is too old: what was spent since would be spent
// again. The nodes remember, and stay away until the right one is back.
func TestAnOldBackupOfTheLedger(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	file := c.aggregatorFile()
	folder, old, newest := filepath.Join(c.dir, "etcd"), filepath.Join(c.dir, "old"), filepath.Join(c.dir, "new")
	put := func(to, from string) {
		t.Helper()
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	begin := func() *process {
		t.Helper()
		aggregator := c.startAggregator(file)
		aggregator.awaitLog("listening", nil)
		return aggregator
	}
	perform := func(name string) {
		t.Helper()
		north, south := c.startSites()
		// Of one round: what nodes are asked in it tells them of nothing that is paid for it.
		j := job{name: name, changes: settings{"privacy": "{epsilon: 5, delta: 1e-5}", "pipeline": "embed", "pategan": "", "warm_start": ""}}
		if code := c.startStudent(c.studentFile(c.runFile(j), c.out(name))).wait(); code != 0 {
			t.Fatalf("the student of run %s ended with exit code %d", name, code)
		}
		stop(north, south)
	}

	aggregator := begin()
	perform("before")
	aggregator.stop()
	put(old, folder)
	aggregator = begin()
	perform("since")
	aggregator.stop()
	put(newest, folder)

	put(folder, old)
	aggregator = begin()
	refused(t, c.startNode("north"), "teacher: ", "the ledger went back", "restore a newer backup")
	if !strings.Contains(aggregator.stderr.text(), "the ledger went back") {
		t.Errorf("the aggregator's log does not say it:\n%s", aggregator.stderr.tail(20))
	}
	if stdout, stderr, code := run(t, binary("teacher"), "preflight", "--config", c.nodeFile("north")); code != 1 || !strings.Contains(stdout+stderr, "the ledger went back") {
		t.Errorf("preflight ends with %d and says %s%s", code, stdout, stderr)
	}
	aggregator.stop()

	put(folder, newest)
	aggregator = begin()
	perform("after")
	aggregator.stop()
}
