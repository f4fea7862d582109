package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// A streaming node is killed while it reads its table for a sum. Nothing was charged yet; it is asked again when it
// is back, and the round is charged once, at the aggregator and in the site's own ledger.
func TestANodeThatStreamsIsKilledInTheMiddleOfASum(t *testing.T) {
	t.Parallel()
	// With this many times the rows, the sum takes some tenths of a second. On a busy machine it may be over before it
	// is noticed.
	for times := 4; !killedInASum(t, times); times *= 4 {
		if t.Logf("the sum of %d times the rows was over before the kill", times); times > 500 {
			t.FailNow()
		}
	}
}

// killedInASum is the test with a table of a size. It reports whether the node was killed before its sum was over.
func killedInASum(t *testing.T, times int) bool {
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	_, audited := c.audit(c.embeddedEndpoint())
	rows := testkit.Read(t, built.north)
	header, rest, _ := bytes.Cut(rows, []byte("\n"))
	large := filepath.Join(c.dir, "large.csv")
	testkit.Must(t, os.WriteFile(large, append(append(header, '\n'), bytes.Repeat(rest, times)...), 0o600))
	policy := filepath.Join(c.dir, "policy.yaml")
	testkit.Must(t, os.WriteFile(policy, fmt.Appendf(nil, "datasets:\n  - {name: %s, epsilon: 20, delta: 1e-4, "+
		"pipelines: [embed], approval: automatic}\n", dataset), 0o600))
	streams := settings{"data": large, "stream": "true", "policy": policy}
	file := c.nodeFile("north", streams)
	startNorth := func() *process { return start(t, "teacher north", binary("teacher"), "--config", file) }
	north, south := startNorth(), c.startNode("south")
	north.awaitLog("joined", nil)
	south.awaitLog("joined", nil)
	j := job{name: "streamed", changes: settings{"pipeline": "embed", "warm_start": "", "pategan": "",
		"embed": "{quorum: 1, features: {waves: 2000}, fit: {steps: 20, batch: 32}}"}}
	student := c.startStudent(c.studentFile(c.runFile(j), c.out(j.name)))
	reading := false
	north.await("it to read its table", func() bool {
		north.freeze()
		reading = north.hasOpen(large)
		if !reading {
			north.signal(syscall.SIGCONT)
		}
		return reading || len(north.logged("answered")) > 0
	})
	north.kill()
	if !reading {
		return false
	}
	if s := siteStatus(t, file); len(s.Runs) > 0 && s.Runs[0].Charges > 0 {
		t.Errorf("the site's ledger was charged before the answer: %+v", s)
	}
	north = startNorth()
	north.awaitLog("answered", func(l clustertest.Line) bool { return l.Run == j.name })
	if code := student.wait(); code != 0 {
		t.Fatalf("the student ended with exit code %d", code)
	}
	if s := siteStatus(t, file); len(s.Runs) != 1 || s.Runs[0].Charges != 1 {
		t.Errorf("the site's ledger: %+v", s)
	}
	audited(1)
	stop(north, south, aggregator)
	for _, part := range []string{".*", "*.part"} { // of a node that runs it may be a write under way
		if left, err := filepath.Glob(filepath.Join(c.state("north"), part)); err != nil || len(left) > 0 {
			t.Errorf("the state folder has %v (%v)", left, err)
		}
	}
	return true
}

// A run whose last stage a streaming node cannot answer ends before its first round is charged, at the aggregator and
// at the site.
func TestARunThatAStreamCannotFinish(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	_, audited := c.audit(c.embeddedEndpoint())
	policy := filepath.Join(c.dir, "policy.yaml")
	testkit.Must(t, os.WriteFile(policy, fmt.Appendf(nil, "datasets:\n  - {name: %s, epsilon: 20, delta: 1e-4, "+
		"pipelines: [pategan], stages: [fit], approval: automatic}\n", dataset), 0o600))
	file := c.nodeFile("north", settings{"stream": "true", "policy": policy})
	north, south := start(t, "teacher north", binary("teacher"), "--config", file), c.startNode("south")
	north.awaitLog("joined", nil)
	south.awaitLog("joined", nil)
	j := job{name: "weighed", rounds: 2, quorum: 1, changes: settings{"weights": "logreg-noised"}}
	refused(t, c.startStudent(c.studentFile(c.runFile(j), c.out(j.name))), "student: ", `round 0 of run "weighed"`,
		"north/0 refused: the stage fit would be refused later (leave it out): this node streams its records and "+
			"answers no fits or selections; leave it out of the run, or have its site remove stream")
	if s := siteStatus(t, file); len(s.Runs) > 0 {
		t.Errorf("the site's ledger: %+v", s)
	}
	audited(0)
	j = job{name: "unweighed", rounds: 2, quorum: 1}
	if code := c.startStudent(c.studentFile(c.runFile(j), c.out(j.name))).wait(); code != 0 {
		t.Errorf("without that stage the student ended with exit code %d", code)
	}
	stop(north, south, aggregator)
}
