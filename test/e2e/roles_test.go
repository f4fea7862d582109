package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Aggregator, two nodes and a student, started by hand as in the README.
func TestRolesWithEmbeddedEtcd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.etcd = fmt.Sprintf("{dir: %s}", filepath.Join(c.dir, "etcd"))
	aggregator := start(t, "aggregator", binary("aggregator"), "--embedded-etcd", "--config", c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	north, south := c.startSites()
	j := job{name: "by-hand", rounds: 6, quorum: 0.9,
		changes: settings{"evaluate": fmt.Sprintf("{test: %s}", built.test)}}
	runFile, out := c.runFile(j), c.out("by-hand")
	student := c.startStudent(c.studentFile(runFile, out))
	r := finish(t, student, out, j)

	if text := student.Stdout.String(); !strings.Contains(text, `"utility_not_private":[{`) {
		t.Errorf("a run with real test rows reports no utility: %s", text)
	}
	for _, l := range aggregator.logged("released") {
		if l.Teachers != allTeachers {
			t.Errorf("round %d was answered by %d teachers, want %d", l.Round, l.Teachers, allTeachers)
		}
	}
	checkSample(t, r.Outputs["model"])
	checkTampering(t, r.Outputs["ledger"], r.Outputs["certificate"])
	said, _, code := called("conclave", "verify", out, "--authority", filepath.Join(built.certs, "ca.crt"))
	if code != 0 || !strings.Contains(said, `node "north"`) || !strings.Contains(said, `node "south"`) {
		t.Errorf("conclave verify ended with %d:\n%s", code, said)
	}
	c.repeat(runFile, out, j)

	// With the same run name, another seed asks other questions.
	other := j
	other.changes = settings{"seed": "2"}
	refused(t, c.startStudent(c.studentFile(c.runFile(other), c.out("other-seed"))),
		"student: ", "round 1", `"by-hand"`, "another question", "open a run with another name")
	stop(north, south, aggregator)
}

func checkSample(t *testing.T, model string) {
	t.Helper()
	stdout, stderr, code := called("conclave", "sample", "--model", model, "--rows", "30", "--where", "label=1",
		"--out", "-")
	if code != 0 {
		t.Fatalf("conclave sample: exit code %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 31 || !strings.HasSuffix(lines[0], ",label") {
		t.Fatalf("conclave sample wrote %d lines, the first %q", len(lines), lines[0])
	}
	for _, line := range lines[1:] {
		if !strings.HasSuffix(line, ",1") {
			t.Errorf("--where label=1 drew %q", line)
		}
	}
}

// checkTampering shows that `ledger verify` accepts only the unchanged ledger.
func checkTampering(t *testing.T, ledger, certificate string) {
	t.Helper()
	whole := testkit.Read(t, ledger)
	lines := slices.Collect(strings.Lines(string(whole)))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	swapped := slices.Clone(lines)
	swapped[3], swapped[4] = swapped[4], swapped[3]
	for name, text := range map[string]string{
		"a flipped bit":     string(flipped),
		"a removed entry":   strings.Join(slices.Delete(slices.Clone(lines), 4, 5), ""),
		"a missing end":     strings.Join(lines[:len(lines)-1], ""),
		"reordered entries": strings.Join(swapped, ""),
	} {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, stderr, code := called("conclave", "ledger", "verify", "--ledger", path, "--certificate",
			certificate); code != 1 || stderr == "" {
			t.Errorf("ledger verify with %s: exit code %d, says %q", name, code, stderr)
		}
	}
}
