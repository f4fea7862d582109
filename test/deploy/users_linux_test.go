package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// buildEtcdctl builds the command that the etcd image has next to the server, in its own module: its go.mod prevents
// installing it by name.
func buildEtcdctl(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module etcdctl\n\ngo 1.26\n"), 0o600))
	const module = "go.etcd.io/etcd/etcdctl/v3"
	for _, args := range [][]string{
		{"get", module + "@v" + etcdversion.Version}, {"build", "-trimpath", "-o", path, module},
	} {
		command := exec.Command("go", args...)
		command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, said)
		}
	}
}

// exec runs a command in the pod's container, as kubectl exec does, with more binds and variables.
func (x *instance) exec(binds []bind, env []string, args ...string) (string, error) {
	x.m.t.Helper()
	c := x.container()
	c.Args, c.Binds, c.Env = args, append(c.Binds, binds...), append(c.Env, env...)
	said, err := c.command(x.m.t).CombinedOutput()
	return string(said), err
}

func (x *instance) etcdctl(args ...string) (string, error) {
	x.m.t.Helper()
	return x.exec(nil, nil, append([]string{"/usr/local/bin/etcdctl", "--endpoints", "https://etcd-0.etcd:2379",
		"--cacert", "/tls/ca.crt", "--cert", "/tls/tls.crt", "--key", "/tls/tls.key"}, args...)...)
}

// makeUsers does what docs/kubernetes-install.md says with the certificate of a member, which has no rights
// afterwards.
func (m *machine) makeUsers() {
	t := m.t
	t.Helper()
	member := m.of("etcd")[0]
	testkit.Eventually(t, "etcd to be ready", func() bool { ready, _ := member.ready(); return ready })
	for _, command := range documentedUsers(t) {
		if said, err := member.etcdctl(strings.Fields(command)...); err != nil {
			t.Fatalf("etcdctl %s: %v\n%s", command, err, said)
		}
	}
	for _, command := range []string{"get --prefix /conclave/", "put /conclave/leader x", "user list",
		"snapshot save /var/lib/etcd/x", "auth disable"} {
		if said, err := member.etcdctl(strings.Fields(command)...); err == nil {
			t.Errorf("a member's certificate may %s: %s", command, said)
		}
	}
}

// backUp copies the ledger with the certificate of the read-only user.
func (m *machine) backUp(secret string) {
	t := m.t
	t.Helper()
	out := t.TempDir()
	testkit.Must(t, os.Chown(out, 65532, 65532))
	testkit.Must(t, os.Chmod(secret, 0o755))
	files, err := filepath.Glob(filepath.Join(secret, "*"))
	testkit.Must(t, err)
	for _, file := range files {
		testkit.Must(t, os.Chown(file, 65532, 65532))
	}
	binds := []bind{{out, "/backup", false}, {secret, "/backup-tls", true}}
	as := []string{"CONCLAVE_ETCD_CERT=/backup-tls/tls.crt", "CONCLAVE_ETCD_KEY=/backup-tls/tls.key"}
	x := m.of("aggregator")[0]
	const config = "--config=/etc/conclave/aggregator.yaml"
	said, err := x.exec(binds, as, "/conclave", "ledger", "backup", config, "--out=/backup/b")
	if err != nil {
		t.Fatalf("the backup: %v\n%s", err, said)
	}
	if said, err := x.exec(binds, as, "/conclave", "ledger", "restore", config, "--from=/backup/b"); err == nil ||
		!strings.Contains(said, "etcd already has keys under this prefix") {
		t.Errorf("a restore over a ledger: %v\n%s", err, said)
	}
}
