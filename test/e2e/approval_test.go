package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// Two persons of a site approve a run with their own keys. No ledger, of a site or of the dataset, is charged before
// they have, after one of them denied it, or after another site's earlier approval has expired. An approval in
// advance asks nobody.
func TestNobodyPaysBeforeAllSitesHaveDecided(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	var approvers []string
	for _, name := range []string{"ann", "ben"} {
		testkit.Must(t, authority.Issue(built.certs, certs.RoleApprover, name, nil, time.Hour))
		pair, err := pemfile.LoadPair(issuedTo(name).Cert, issuedTo(name).Key)
		testkit.Must(t, err)
		approvers = append(approvers, fmt.Sprintf("{name: Dr. %s, key: %s}", name,
			testkit.Value(certs.Fingerprint(pair.Leaf.PublicKey))))
	}
	byTwo := c.policyFile("north", "20", "by-hand, approvals_needed: 2, approvers: ["+strings.Join(approvers, ", ")+"]")
	trail := filepath.Join(c.dir, "audit-south.jsonl")
	byOne := c.policyFile("south", "20", "by-hand")
	byOne["audit_log"] = trail
	files := map[string]string{"north": c.nodeFile("north", byTwo), "south": c.nodeFile("south", byOne)}
	north := start(t, "teacher north", binary("teacher"), "--config", files["north"])
	south := start(t, "teacher south", binary("teacher"), "--config", files["south"])
	north.awaitLog("joined", nil)
	south.awaitLog("joined", nil)

	teacher := func(site, command, name string, args ...string) {
		t.Helper()
		_, stderr, code := called("teacher", append([]string{command, name, "--config", files[site]},
			args...)...)
		if code != 0 {
			t.Fatalf("teacher %s %s: %d %s", command, name, code, stderr)
		}
	}
	signed := func(name string) []string { return []string{"--as", issuedTo(name).Cert, "--key", issuedTo(name).Key} }
	states := func(name, atNorth, atSouth string) {
		t.Helper()
		for site, want := range map[string]string{"north": atNorth, "south": atSouth} {
			testkit.Eventually(t, fmt.Sprintf("run %s to be %s at %s", name, want, site), func() bool {
				for _, r := range siteStatus(t, files[site]).Runs {
					if r.Run == name && r.State == want {
						if r.Charges != 0 {
							t.Errorf("site %s was charged for run %s: %+v", site, name, r)
						}
						return true
					}
				}
				return false
			})
		}
		if n := len(aggregator.logged("released")); n != 0 {
			t.Errorf("%d rounds were released", n)
		}
	}
	begin := func(name string) (*process, job) {
		j := job{name: name, rounds: 2, quorum: 1}
		if name == "late" {
			j.changes = settings{"study": filepath.Join(c.dir, "study-agreed.yaml")}
		}
		student := c.startStudent(c.studentFile(c.runFile(j), c.out(name)))
		states(name, sitepolicy.StateWaiting, sitepolicy.StateWaiting)
		return student, j
	}
	awaits := func(student *process, site string) {
		t.Helper()
		waits := site + "/0 waits for approval at site " + site
		student.await("the student to say: "+waits, func() bool { return student.said(waits) })
	}

	succeeds := func(student *process) {
		t.Helper()
		if code := student.wait(); code != 0 {
			t.Fatalf("the student ended with %d", code)
		}
	}

	// One of two is no quorum, the same one twice counts once, and one denial is enough.
	student, j := begin("denied")
	teacher("south", "approve", j.name)
	teacher("north", "approve", j.name, signed("ann")...)
	teacher("north", "approve", j.name, signed("ann")...)
	awaits(student, "north")
	states(j.name, sitepolicy.StateWaiting, sitepolicy.StateApproved)
	teacher("north", "deny", j.name, signed("ben")...)
	if code := student.wait(); code != 1 || !student.said("run denied was denied by the site") {
		t.Errorf("the student of a run that was denied ended with %d", code)
	}
	states(j.name, sitepolicy.StateDenied, sitepolicy.StateApproved)

	// After a study has ended no run can be opened: no site is asked.
	ended := c.study("ended", "2020-06-30")
	student = c.startStudent(c.studentFile(c.runFile(job{name: "expired", rounds: 2, quorum: 1,
		changes: settings{"study": ended}}), c.out("expired")))
	if code := student.wait(); code != 1 || !student.said("the study has ended") {
		t.Errorf("the student of a study that has ended ended with %d", code)
	}
	for site, file := range files {
		if s := siteStatus(t, file); len(s.Runs) != 1 {
			t.Errorf("site %s was told of %+v", site, s.Runs)
		}
	}

	// A run that belongs to a different study from one site's policy is refused there, and the other site pays
	// nothing.
	agreed := c.study("agreed", "2199-06-30")
	wanting := fmt.Sprintf("by-hand, approvals_needed: 2, study: {sha256: %s}, approvers: [%s]",
		study.Hash(testkit.Read(t, agreed)), strings.Join(approvers, ", "))
	c.policyFile("north", "20", wanting)
	student = c.startStudent(c.studentFile(c.runFile(job{name: "other", rounds: 2, quorum: 1,
		changes: settings{"study": c.study("other", "2199-06-30")}}), c.out("other")))
	if code := student.wait(); code != 1 || !student.said("policy of site north, study: runs on dataset "+dataset) {
		t.Errorf("the student of another study ended with %d", code)
	}
	states("other", sitepolicy.StateRefused, sitepolicy.StateWaiting)

	// South permits the run, and its approval expires before north has decided. On a busy machine an approval may
	// expire before the node permits anything; then a longer one follows.
	student, j = begin("late")
	expired := func() bool {
		return slices.ContainsFunc(south.logged("run is no longer permitted"),
			func(l clustertest.Line) bool { return l.Run == j.name })
	}
	for lasts := 4 * time.Second; !expired(); lasts *= 2 {
		if lasts > testkit.Patience {
			t.Fatal("no approval expired after the node had permitted the run")
		}
		teacher("south", "approve", j.name, "--for", lasts.String())
		for begun := time.Now(); !expired() && time.Since(begun) < lasts+2*time.Second; {
			time.Sleep(50 * time.Millisecond)
		}
	}
	states(j.name, sitepolicy.StateWaiting, sitepolicy.StateWaiting)
	teacher("north", "approve", j.name, signed("ann")...)
	teacher("north", "approve", j.name, signed("ben")...)
	awaits(student, "south")
	states(j.name, sitepolicy.StateApproved, sitepolicy.StateWaiting)
	teacher("south", "approve", j.name, "--for", "30d")
	succeeds(student)
	for _, e := range parseLedger(t, testkit.Read(t, filepath.Join(c.out(j.name), "ledger.jsonl"))) {
		if e.Type == ledger.EntryRelease && e.Run != j.name {
			t.Errorf("the dataset was charged for run %s", e.Run)
		}
	}
	raw := string(testkit.Read(t, trail))
	for _, want := range []string{`"event":"approval"`, `"event":"expiry"`,
		`"study":{"title":"Study agreed","permit":"IRB 7","sha256":"`} {
		if !strings.Contains(raw, want) {
			t.Errorf("the audit log of site south has no line with %s", want)
		}
	}

	// Both sites approved the student's next run in advance.
	ahead := []string{"--student", "lab", "--pipelines", "pategan", "--epsilon", "12", "--for", "1d"}
	teacher("south", "approve", "study", ahead...)
	for _, name := range []string{"ann", "ben"} {
		teacher("north", "approve", "study", append(signed(name), ahead...)...)
	}
	j = job{name: "ahead", rounds: 2, quorum: 1, changes: settings{"study": agreed}}
	succeeds(c.startStudent(c.studentFile(c.runFile(j), c.out(j.name))))
	for site, file := range files {
		s := siteStatus(t, file)
		if len(s.InAdvance) != 1 || s.InAdvance[0].Charges != j.rounds+1 || s.InAdvance[0].EpsilonCharged <= 0 {
			t.Errorf("site %s has approved in advance %+v", site, s.InAdvance)
		}
	}
	stop(north, south, aggregator)
}

// study writes a study.yaml with a name and an end.
func (c *cluster) study(name, expires string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.dir, "study-"+name+".yaml")
	testkit.Must(c.t, os.WriteFile(path, fmt.Appendf(nil, `name: %s
title: Study %s
purpose: Synthetic rows
permit: IRB 7
contact: Dr. Berg
expires: %s
dataset: %s
schema: %s
budget: {epsilon: 20, delta: 1e-4}
pipelines: [pategan]
aggregator: {hosts: [127.0.0.1]}
sites: [north, south]
students: [lab]
`, name, name, expires, dataset, built.schema), 0o600))
	return path
}

// issuedTo are the files of an approver.
func issuedTo(name string) certs.Files {
	return certs.IssuedFiles(built.certs, certs.RoleApprover, name)
}
