package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// fingerprint is the fingerprint of a site's key, as shown by its certificate.
func fingerprint(t *testing.T, site string) string {
	t.Helper()
	out, stderr, code := called("conclave", "certs", "fingerprint",
		certs.IssuedFiles(built.certs, certs.RoleNode, site).Cert)
	identity, key, _ := strings.Cut(strings.TrimSpace(out), "\n")
	if code != 0 || identity != fmt.Sprintf("node %q", site) {
		t.Fatalf("conclave certs fingerprint: %d %s%s", code, out, stderr)
	}
	return key
}

// A masked run among two sites: the student learns which site is missing. At one site a person compares the members
// before it begins; the other permits it automatically, because its policy lists its peer. All documents agree.
func TestAMaskedRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	policy := func(site, rest string) settings {
		path := filepath.Join(c.dir, "policy-"+site+".yaml")
		testkit.Must(t, os.WriteFile(path, []byte(fmt.Sprintf("datasets:\n  - {name: %s, epsilon: 100, delta: 1e-5, "+
			"pipelines: [embed], masked: true, least_sites: 2, least_colluding: 1, %s}\n", dataset, rest)), 0o600))
		return settings{"policy": path}
	}
	northern := policy("north", "approval: by-hand")
	file := c.nodeFile("north", northern)
	north := start(t, "teacher north", binary("teacher"), "--config", file)
	north.awaitLog("joined", nil)
	j := job{name: "masked", rounds: 1, quorum: 1, changes: settings{
		"pipeline": "embed", "embed": "{features: {waves: 20, bins: 5}, fit: {steps: 20, batch: 32}}",
		"aggregation": fmt.Sprintf("{masked: true, members: [{site: north, key: %q}, {site: south, key: %q}]}",
			fingerprint(t, "north"), fingerprint(t, "south")),
	}}
	runFile, out := c.runFile(j), c.out(j.name)
	if said, stderr, code := called("conclave", "privacy", "plan", "--run", runFile); code != 0 ||
		!strings.Contains(said, "masked sums of 2 sites; up to 1 of them may collude") ||
		!strings.Contains(said, "noise factor 1.41: ") {
		t.Errorf("conclave privacy plan: %d %s%s", code, said, stderr)
	}
	student := c.startStudent(c.studentFile(runFile, out))
	student.await("the student to say which site is missing", func() bool {
		return student.said("site south, which is not connected")
	})
	southern := policy("south", fmt.Sprintf("approval: automatic, peers: [{site: north, key: %q}]",
		fingerprint(t, "north")))
	southFile := c.nodeFile("south", southern)
	south := start(t, "teacher south", binary("teacher"), "--config", southFile)
	student.await("the student to say who has to approve", func() bool {
		return student.said("north/0 waits for approval at site north")
	})
	for _, args := range [][]string{{"runs", "--config", file, j.name}, {"approve", "--config", file, j.name}} {
		said, stderr, code := called("teacher", args...)
		if code != 0 || !strings.Contains(said, "the answer to a round may be opened 4 times") ||
			!strings.Contains(said, "  south  "+fingerprint(t, "south")+"\n") {
			t.Errorf("teacher %v: %d %s%s", args, code, said, stderr)
		}
	}
	if code := student.wait(); code != 0 {
		t.Fatalf("the student ended with exit code %d", code)
	}
	said, stderr, code := called("conclave", "ledger", "verify", "--ledger", filepath.Join(out, "ledger.jsonl"),
		"--certificate", filepath.Join(out, "certificate.json"))
	if code != 0 || !strings.Contains(said, "run masked: masked sums of 2 sites; up to 1 of them may collude") ||
		!strings.Contains(said, "Each site drew 1/1 of the required variance: noise factor 1.41421") ||
		!strings.Contains(said, "  north  "+fingerprint(t, "north")+"\n") {
		t.Errorf("ledger verify: %d %s%s", code, said, stderr)
	}
	for _, file := range []string{file, southFile} {
		if s := siteStatus(t, file); len(s.Runs) != 1 || s.Runs[0].Charges != 1 || s.Runs[0].RevealsAtMost != 4 ||
			s.Runs[0].Spec.Masked == nil || !(s.EpsilonSpent > 0) {
			t.Errorf("the site's status %+v", s)
		}
	}

	// Without masks the sites refuse it.
	plain := job{name: "plain", rounds: 1, quorum: 1, changes: settings{"pipeline": "embed"}}
	student = c.startStudent(c.studentFile(c.runFile(plain), c.out(plain.name)))
	if code := student.wait(); code != 1 || !student.said("runs without masks are not allowed on dataset "+dataset) {
		t.Errorf("the student of a run without masks ended with %d", code)
	}
	if s := siteStatus(t, file); s.Runs[0].State != sitepolicy.StateEnded || s.Runs[0].Charges != 1 {
		t.Errorf("the site's status %+v", s)
	}
	stop(north, south, aggregator)
}
