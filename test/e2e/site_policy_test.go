package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// policyFile writes a site's policy and returns the setting that names it.
func (c *cluster) policyFile(site, epsilon, approval string) settings {
	c.t.Helper()
	path := filepath.Join(c.dir, "policy-"+site+".yaml")
	text := fmt.Sprintf("datasets:\n"+
		"  - {name: %s, epsilon: %s, delta: 1e-5, pipelines: [pategan], min_rows: 10, approval: %s}\n",
		dataset, epsilon, approval)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return settings{"policy": path}
}

// siteStatus is the output of `teacher runs`.
func siteStatus(t *testing.T, file string) (s sitepolicy.Status) {
	t.Helper()
	out, stderr, code := called("teacher", "runs", "--config", file, "--format", "json")
	if code != 0 {
		t.Fatalf("teacher runs: %d %s", code, stderr)
	}
	testkit.Must(t, json.Unmarshal([]byte(out), &s))
	return s
}

// A site whose own limit is below the run's answers up to its limit and no further, across a kill and a restart of
// its node. The run continues with the quorum of the others.
func TestASiteHasALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	traps := filepath.Join(c.dir, "traps")
	testkit.Must(t, os.Mkdir(traps, 0o700))
	testkit.Must(t, clustertest.Trap(traps, "after", "wait"))
	aggregator := startRole(t, clustertest.Trapped, c.aggregatorFile(), traps)
	aggregator.awaitLog("listening", nil)
	const limit = 4
	policy := c.policyFile("north", fmt.Sprint(limit), "automatic")
	north, south := c.startNode("north", policy), c.startNode("south")
	north.awaitLog("joined", nil)
	south.awaitLog("joined", nil)
	c.slowDown()
	j := job{name: "limited", rounds: 16, quorum: 0.5}
	out := c.out(j.name)
	student := c.startStudent(c.studentFile(c.runFile(j), out))

	// The run waits after its first charge until the node was killed and is back: otherwise the limit may be reached
	// before, or the run over.
	trapped := filepath.Join(traps, "trapped")
	aggregator.await("the first charge", func() bool {
		_, err := os.Stat(trapped)
		return err == nil
	})
	north.kill()
	file := c.nodeFile("north", policy)
	before := siteStatus(t, file)
	north = start(t, "teacher north", binary("teacher"), "--config", file)
	north.awaitLog("joined", nil)
	testkit.Must(t, os.Remove(trapped))
	north.awaitLog("round refused", func(l clustertest.Line) bool {
		return strings.Contains(l.Text, "own limit on dataset "+dataset)
	})
	r := finish(t, student, out, j)
	certificate, err := certificate.Read(r.Outputs["certificate"])
	if err != nil || certificate.TeachersLeast != siteTeachers || !(certificate.EpsilonSpent > limit) {
		t.Errorf("the certificate says that at least %d teachers took part, for epsilon %v (%v)",
			certificate.TeachersLeast, certificate.EpsilonSpent, err)
	}
	after := siteStatus(t, file)
	if len(before.Runs) != 1 || len(after.Runs) != 1 || after.Runs[0].Charges <= 1 ||
		before.Runs[0].Charges != 1 {
		t.Fatalf("the site's ledger: %+v, after a restart %+v", before, after)
	}
	answered := map[uint64]bool{}
	for _, l := range aggregator.logged("released") {
		if l.Teachers == allTeachers {
			answered[l.Round] = true
		}
	}
	if run := after.Runs[0]; run.Charges < len(answered) || after.EpsilonSpent > limit ||
		after.EpsilonSpent < limit/2 || run.Spec.Epsilon != 10 ||
		run.State != sitepolicy.StateAutomatic && run.State != sitepolicy.StateEnded {
		t.Errorf("%d rounds counted the site's teachers, its ledger says %+v", len(answered), after)
	}
	north.stop()
	// A node with a truncated site ledger answers nothing.
	ledger := filepath.Join(c.state("north"), "site-ledger-"+dataset+".jsonl")
	raw := testkit.Read(t, ledger)
	lines := strings.SplitAfter(string(raw), "\n")
	testkit.Must(t, os.WriteFile(ledger, []byte(strings.Join(lines[:len(lines)-2], "")), 0o600))
	if _, stderr, code := called("teacher", "runs", "--config", file); code != 1 ||
		!strings.Contains(stderr, "was truncated") {
		t.Errorf("a shortened ledger: %d %s", code, stderr)
	}
	stop(south, aggregator)
}

// A run waits for a site's people, everybody can see for whom, and it continues by itself when they approve it. A run
// that they deny ends.
func TestARunWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	policy := c.policyFile("north", "20", "by-hand")
	file := c.nodeFile("north", policy)
	startNorth := func() *process { return start(t, "teacher north", binary("teacher"), "--config", file) }
	southern := c.policyFile("south", "20", "automatic")
	southFile := c.nodeFile("south", southern)
	// A site that permits a run pays nothing before the other needed sites permit it.
	free := func(when string, runs int) {
		t.Helper()
		s := siteStatus(t, southFile)
		if len(s.Runs) != runs || s.Runs[runs-1].Charges != 0 {
			t.Errorf("%s the site that permits the run has %+v", when, s)
		}
	}
	north, south := startNorth(), c.startNode("south", southern)
	north.awaitLog("joined", nil)
	south.awaitLog("joined", nil)
	const purpose = "survival of patients, study 12"
	j := job{name: "asked", rounds: 3, quorum: 1, changes: settings{"purpose": purpose}}
	out := c.out(j.name)
	student := c.startStudent(c.studentFile(c.runFile(j), out))
	waits := fmt.Sprintf("waiting for a quorum of %d teachers, %d are connected: north/0 waits for approval "+
		"at site north", allTeachers, allTeachers)
	student.await("the student to say: "+waits, func() bool { return student.said(waits) })
	if s := siteStatus(t, file); len(s.Runs) != 1 || s.Runs[0].State != sitepolicy.StateWaiting ||
		s.Runs[0].Run != j.name || s.EpsilonSpent != 0 || s.Runs[0].Requester != "lab" ||
		s.Runs[0].Spec.Purpose != purpose {
		t.Errorf("the site's status %+v", s)
	}
	north.kill()
	north = startNorth()
	north.awaitLog("round waits for this site", nil)
	free("while the other site decides,", 1)
	if n := len(aggregator.logged("released")); n != 0 {
		t.Errorf("%d rounds were released", n)
	}
	teacher := func(args ...string) (stdout string) {
		t.Helper()
		stdout, stderr, code := called("teacher", args...)
		if code != 0 {
			t.Fatalf("teacher %v: %d %s", args, code, stderr)
		}
		return stdout
	}
	if said := teacher("runs", "--config", file); !strings.Contains(said, " lab ") || !strings.Contains(said, purpose) {
		t.Errorf("teacher runs says %q", said)
	}
	for _, args := range [][]string{{"runs", j.name}, {"approve", j.name}} {
		said := teacher(append(args, "--config", file)...)
		for _, want := range []string{"run asked (spec ", "requester: lab, ", "purpose: " + purpose + " (",
			"1 x class-counts: laplace", " x votes: gnmax sigma ", "cannot be detected in one release",
			map[string]string{"runs": " is waiting\n", "approve": " is approved by "}[args[0]]} {
			if !strings.Contains(said, want) {
				t.Errorf("teacher %s says %q, want %q", args[0], said, want)
			}
		}
	}
	finish(t, student, out, j)
	for _, l := range aggregator.logged("released") {
		if l.Teachers != allTeachers {
			t.Errorf("round %d was released with %d teachers", l.Round, l.Teachers)
		}
	}
	testkit.Eventually(t, "the approval to end with the run", func() bool {
		return siteStatus(t, file).Runs[0].State == sitepolicy.StateEnded
	})
	for _, file := range []string{file, southFile} {
		if s := siteStatus(t, file); s.Runs[0].Charges != j.rounds+1 {
			t.Errorf("the site's status %+v", s)
		}
	}
	if s := siteStatus(t, file); s.Runs[0].By == "" {
		t.Errorf("the site's status %+v", s)
	}

	denied := job{name: "unwanted", rounds: 3, quorum: 1}
	student = c.startStudent(c.studentFile(c.runFile(denied), c.out(denied.name)))
	north.awaitLog("round waits for this site", func(l clustertest.Line) bool { return l.Run == denied.name })
	teacher("deny", "--config", file, denied.name)
	if code := student.wait(); code != 1 || !student.said("run unwanted was denied by the site") {
		t.Errorf("the student of a run that was denied ended with %d", code)
	}
	free("after the other site denied it,", 2)
	if s := siteStatus(t, file); len(s.Runs) != 2 || s.Runs[1].State != sitepolicy.StateDenied ||
		s.Runs[1].Charges != 0 {
		t.Errorf("the site's status %+v", s)
	}
	stop(north, south, aggregator)
}
