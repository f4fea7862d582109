package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// issuer is a test's own authority, with the folders of its sites.
type issuer struct {
	t   *testing.T
	dir string
}

func newAuthority(t *testing.T, c *cluster) issuer {
	t.Helper()
	a := issuer{t, filepath.Join(c.dir, "ca")}
	a.conclave("certs", "ca", "--dir", a.dir)
	return a
}

// conclave runs a command that must succeed.
func (a issuer) conclave(args ...string) string {
	a.t.Helper()
	stdout, stderr, code := called("conclave", args...)
	if code != 0 {
		a.t.Fatalf("conclave %v: exit code %d: %s", args, code, stderr)
	}
	return stdout
}

func (a issuer) site(name string) string { return filepath.Join(filepath.Dir(a.dir), "site-"+name) }

// enrol lets a site ask for a certificate, approves it and installs it, as people do. more are arguments of the
// request. It returns the certificate's serial.
func (a issuer) enrol(role certs.Role, name string, more ...string) (serial string) {
	a.t.Helper()
	dir := a.site(name)
	a.conclave(append([]string{"site", "request", "--dir", dir, "--site", name, "--role", string(role)}, more...)...)
	files := certs.FilesAtSite(dir, role, name)
	back := filepath.Join(a.t.TempDir(), "back.crt")
	var issued authority.Issued
	text := a.conclave("site", "approve", "--dir", a.dir, "--role", string(role), "--site", name, "--yes", "--out",
		back, "--format", "json", files.Request)
	if err := json.Unmarshal([]byte(text), &issued); err != nil {
		a.t.Fatal(err)
	}
	a.conclave("site", "install", "--dir", dir, "--site", name, "--role", string(role), "--ca",
		filepath.Join(a.dir, "ca.crt"), back)
	return issued.Serial
}

func (a issuer) revoke(args ...string) {
	a.t.Helper()
	a.conclave(append([]string{"site", "revoke", "--dir", a.dir}, args...)...)
}

// tls is the TLS section of an enrolled peer's configuration.
func (a issuer) tls(role certs.Role, name string) settings {
	f := certs.FilesAtSite(a.site(name), role, name)
	return settings{"tls": "{ca: " + f.CA + ", cert: " + f.Cert + ", key: " + f.Key + ", revoked: " +
		certs.RevokedFile(a.dir) + "}"}
}

// awaitJoins waits until a node was welcomed this many times.
func awaitJoins(p *process, n int) {
	p.t.Helper()
	p.await(p.name+" to join again", func() bool { return len(p.logged("joined")) >= n })
}

// Certificates of a node, with a new key, and of the aggregator, with its old key, are renewed in the middle of a
// run, and the old ones revoked. Nothing is restarted, and the run continues to its end. Then a site leaves.
func TestCertificatesAreRenewedInTheMiddleOfARun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := newAuthority(t, c)
	oldAggregator := a.enrol(certs.RoleAggregator, "a1", "--hosts", "127.0.0.1")
	oldNorth := a.enrol(certs.RoleNode, "north")
	a.enrol(certs.RoleNode, "south")
	a.enrol(certs.RoleStudent, "lab")

	auditFile := filepath.Join(c.dir, "audit.jsonl")
	aggregator := c.startAggregator(c.aggregatorFile(a.tls(certs.RoleAggregator, "a1"),
		settings{"audit_log": auditFile}))
	aggregator.awaitLog("listening", nil)
	north, south := c.startNode("north", a.tls(certs.RoleNode, "north")),
		c.startNode("south", a.tls(certs.RoleNode, "south"))
	awaitJoins(north, 1)
	awaitJoins(south, 1)
	_, audited := c.audit(c.embeddedEndpoint())
	c.slowDown()
	j := job{name: "renewed", rounds: 22, quorum: 1}
	runFile, out := c.runFile(j), c.out(j.name)
	student := c.startStudent(c.studentFile(runFile, out, a.tls(certs.RoleStudent, "lab")))
	// goesOn lets the run continue for a few rounds, and then delays it so that it does not end too soon.
	goesOn := func() {
		t.Helper()
		student.signal(syscall.SIGCONT)
		awaitRound(aggregator, uint64(len(aggregator.logged("released")))+2)
		student.signal(syscall.SIGSTOP)
	}
	goesOn()

	a.enrol(certs.RoleNode, "north", "--renew", "--new-key")
	goesOn()
	if n := len(north.logged("joined")); n != 1 {
		t.Errorf("a renewed certificate alone made the node join %d times", n)
	}
	a.revoke("--serial", oldNorth, "--reason", certs.ReasonSuperseded)
	awaitJoins(north, 2)
	goesOn()

	a.enrol(certs.RoleAggregator, "a1", "--hosts", "127.0.0.1", "--renew")
	goesOn()
	a.revoke("--serial", oldAggregator, "--reason", certs.ReasonSuperseded)
	awaitJoins(north, 3)
	awaitJoins(south, 2)
	if student.ended() {
		t.Error("the run was over before everything had been renewed")
	}
	student.signal(syscall.SIGCONT)
	finish(t, student, out, j)
	audited(j.rounds + 1)

	// South leaves. Its node is told and ends; its next start is refused.
	a.revoke("south", "--reason", certs.ReasonLeft)
	refused(t, south, "not accepted by the other side", "revoked")
	testkit.Eventually(t, "the audit log to have it", func() bool {
		for _, e := range auditLines(t, auditFile) {
			if e.Event == auditlog.Refused && e.Peer == "node/south" && strings.Contains(e.Reason, "revoked") {
				return true
			}
		}
		return false
	})
	refused(t, c.startNode("south", a.tls(certs.RoleNode, "south")), "own certificate", "revoked")
	stop(north, aggregator)
}
