package deploy

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/version"
)

func replicasOf(object runtime.Object) int {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return int(*o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas)
	}
	return 0
}

var image = flag.Bool("image", false, "build the image by the Dockerfile's steps and run overlays/small in it")

// secretOf makes a Secret as docs/kubernetes-install.md does, with a certificate from an authority.
func secretOf(t *testing.T, issuer string, role certs.Role, name string, hosts ...string) string {
	t.Helper()
	testkit.Must(t, authority.Issue(issuer, role, name, hosts, time.Hour))
	files, dir := certs.IssuedFiles(issuer, role, name), t.TempDir()
	for to, from := range map[string]string{"ca.crt": files.CA, "tls.crt": files.Cert, "tls.key": files.Key,
		"revoked.crl": certs.RevokedFile(issuer)} {
		raw, err := os.ReadFile(from)
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(filepath.Join(dir, to), raw, 0o600))
	}
	return dir
}

// inImage runs a program with only the image, in a read-only root, and returns its output.
func inImage(t *testing.T, root string, binds []bind, args ...string) (string, error) {
	t.Helper()
	own := t.TempDir()
	testkit.Must(t, os.CopyFS(own, os.DirFS(root)))
	testkit.Must(t, os.Chmod(own, 0o755))
	c := container{Root: own, Binds: binds, User: 65532, Group: 65532, FSGroup: 65532, Args: args}
	said, err := c.command(t).CombinedOutput()
	return string(said), err
}

// TestTheImageRuns builds the image with the Dockerfile's own steps and runs everything in overlays/small: three etcd
// members with TLS, two aggregators, two nodes and a student, each in a read-only root without capabilities. The run
// must end with results, the ledger must verify, a standby must take over, and all must stop cleanly.
//
// The test is opt-in because a build without the machine's cache takes minutes of processor time.
func TestTheImageRuns(t *testing.T) {
	if !*image {
		t.Skip("builds the image and runs it as pods: go -C test/deploy test -run TestTheImageRuns -image -timeout 30m")
	}
	root := buildImage(t)
	checkStatic(t, root)
	needRoot(t)
	if said, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Logf("no container daemon answers (%.80q): the image's root is run without one", said)
	}
	for _, program := range []string{"aggregator", "conclave", "student", "teacher"} {
		if said, err := inImage(t, root, nil, "/"+program, "--version"); err != nil ||
			strings.TrimSpace(said) != version.Software {
			t.Errorf("%s --version: %v, %q", program, err, said)
		}
	}
	if said, err := inImage(t, root, nil, "/conclave", "certs", "ca", "--dir", "/certs"); err == nil ||
		!strings.Contains(said, "read-only file system") && !strings.Contains(said, "permission denied") {
		t.Errorf("the root can be written: %v, %s", err, said)
	}

	runEmbedded(t, root)

	etcd := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(etcd, "usr/local/bin/etcd"), "./etcd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build etcd: %v\n%s", err, said)
	}
	buildEtcdctl(t, filepath.Join(etcd, "usr/local/bin/etcdctl"))

	m := newMachine(t, setOf(t, "small"))
	m.images = map[string]string{"aggregator": root, "teacher": root, "student": root, "etcd": etcd}
	ours, theirs := t.TempDir(), t.TempDir()
	testkit.Must(t, authority.Create(ours))
	testkit.Must(t, authority.Create(theirs))
	m.secrets = map[string]string{
		"aggregator-tls": secretOf(t, ours, certs.RoleAggregator, "aggregator", "aggregator"),
		"teacher-tls":    secretOf(t, ours, certs.RoleNode, "clinic"),
		"student-tls":    secretOf(t, ours, certs.RoleStudent, "lab"),
		"etcd-tls": secretOf(t, theirs, certs.RoleAggregator, "etcd", "etcd-0.etcd", "etcd-1.etcd",
			"etcd-2.etcd", "etcd-client"),
		"etcd-client-tls": secretOf(t, theirs, certs.RoleStudent, "ledger"),
		"teacher-data":    filepath.Join(t.TempDir(), "shards"),
	}
	example := repository + "/examples/flchain"
	shard := exec.Command(filepath.Join(root, "conclave"), "shard", "--schema", example+"/schema.yaml", "--data",
		example+"/train.csv.gz", "--shards", "2", "--out", m.secrets["teacher-data"])
	if said, err := shard.CombinedOutput(); err != nil {
		t.Fatalf("conclave shard: %v\n%s", err, said)
	}
	m.prepare()
	began := time.Now()
	m.start()
	m.makeUsers()

	aggregators, teachers, student := m.of("aggregator"), m.of("teacher"), m.of("student")[0]
	for _, x := range m.running {
		if x.pod.serves() {
			testkit.Eventually(t, x.name+" to be ready", func() bool { ready, _ := x.ready(); return ready })
			x.confined()
		}
	}
	t.Logf("all pods are ready %.1f s after the first was started", time.Since(began).Seconds())
	select {
	case <-student.done:
	case <-time.After(testkit.Patience):
		t.Fatal("the run does not end")
	}
	if student.code != 0 {
		t.Fatalf("the student ended with %d: %s", student.code, student.log())
	}
	results := filepath.Join(m.claims, "student-out-first", "results")
	for _, name := range []string{"synthetic.csv", "ledger.jsonl", "certificate.json", "report.html"} {
		if info, err := os.Stat(filepath.Join(results, name)); err != nil || info.Size() == 0 {
			t.Errorf("the run left no %s: %v", name, err)
		}
	}
	said, err := inImage(t, root, []bind{{results, "/results", true}}, "/conclave", "ledger", "verify", "--ledger",
		"/results/ledger.jsonl", "--certificate", "/results/certificate.json")
	if err != nil {
		t.Errorf("the ledger does not verify: %v\n%s", err, said)
	}
	for i, x := range teachers {
		for _, name := range []string{"node/partition.key", "node/manifest.json", "audit/audit.jsonl"} {
			if _, err := os.Stat(filepath.Join(m.claims, "state-"+x.name, name)); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		}
	}

	m.memory()
	m.backUp(secretOf(t, theirs, certs.RoleStudent, "backup"))

	leader, standby := aggregators[0], aggregators[1]
	if _, state := leader.ready(); state != "leader" {
		leader, standby = standby, leader
	}
	if _, state := standby.ready(); state != "standby of "+leader.name {
		t.Errorf("%s says %q beside the leader %s", standby.name, state, leader.name)
	}
	leader.signal(syscall.SIGKILL, false)
	took := testkit.Eventually(t, "the standby to lead",
		func() bool { _, state := standby.ready(); return state == "leader" })
	back := testkit.Eventually(t, "the nodes to come back", func() bool {
		for _, x := range teachers {
			if !strings.Contains(x.log(), `"msg":"joined","aggregator":"`+standby.name+`"`) {
				return false
			}
		}
		return true
	})
	t.Logf("the standby leads %.2f s after the leader was killed, the nodes are back %.2f s later", took.Seconds(),
		back.Seconds())
	testkit.Eventually(t, "the one that was killed to stand by", func() bool {
		_, state := leader.ready()
		return state == "standby of "+standby.name
	})

	for _, app := range []string{"teacher", "aggregator", "etcd"} {
		for _, x := range m.of(app) {
			x.signal(syscall.SIGTERM, true)
			select {
			case <-x.done:
			case <-time.After(time.Duration(*x.pod.spec.TerminationGracePeriodSeconds) * time.Second):
				t.Errorf("%s does not stop in its time", x.name)
				continue
			}
			if x.code != 0 && app != "etcd" { // etcd forwards the signal to itself
				t.Errorf("%s ended with %d after SIGTERM", x.name, x.code)
			}
		}
	}
}

// runEmbedded runs an aggregator with an embedded etcd, which needs only its folder: no temporary folder, no port.
func runEmbedded(t *testing.T, root string) {
	t.Helper()
	issuer, config, state, own := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	testkit.Must(t, authority.Create(issuer))
	tls := secretOf(t, issuer, certs.RoleAggregator, "aggregator", "localhost")
	for _, dir := range []string{tls, config, state} {
		testkit.Must(t, os.Chmod(dir, 0o755))
	}
	testkit.Must(t, os.Chown(state, 65532, 65532))
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key", "revoked.crl"} {
		testkit.Must(t, os.Chown(filepath.Join(tls, name), 65532, 65532))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(config, "aggregator.yaml"), []byte(`
listen: 127.0.0.1:0
datasets: [{name: d, schema_sha256: `+strings.Repeat("ab", 32)+`, budget: {epsilon: 1, delta: 1e-6}}]
tls: {ca: /tls/ca.crt, cert: /tls/tls.crt, key: /tls/tls.key, revoked: /tls/revoked.crl}
etcd: {embedded: true, dir: /state/etcd}
audit_log: /state/audit/audit.jsonl
`), 0o644))
	testkit.Must(t, os.CopyFS(own, os.DirFS(root)))
	testkit.Must(t, os.Chmod(own, 0o755))
	c := container{
		Root: own, User: 65532, Group: 65532, FSGroup: 65532,
		Args:  []string{"/aggregator", "--config", "/config/aggregator.yaml"},
		Binds: []bind{{config, "/config", true}, {tls, "/tls", true}, {state, "/state", false}},
	}
	command := c.command(t)
	said, err := command.StderrPipe()
	testkit.Must(t, err)
	testkit.Must(t, command.Start())
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if strings.Contains(lines.Text(), `"msg":"listening"`) {
			testkit.Must(t, command.Process.Signal(syscall.SIGTERM))
		}
		t.Log(lines.Text())
	}
	if err := command.Wait(); err != nil {
		t.Errorf("an aggregator with an embedded etcd ended with %v", err)
	}
	if info, err := os.Stat(filepath.Join(state, "etcd", "etcd")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the ledger: %v, %v", info, err)
	}
}

func setOf(t *testing.T, name string) set {
	t.Helper()
	for _, s := range sets(t) {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no set %s", name)
	return set{}
}

// of returns the pods of an app.
func (m *machine) of(app string) []*instance {
	var found []*instance
	for _, x := range m.running {
		if x.pod.app() == app {
			found = append(found, x)
		}
	}
	return found
}

// memory logs the peak memory of each process so far.
func (m *machine) memory() {
	m.t.Helper()
	var most []string
	for _, x := range m.running {
		x.mu.Lock()
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.process.Pid))
		x.mu.Unlock()
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(raw), "\nVmHWM:")
		line, _, _ := strings.Cut(rest, "\n")
		most = append(most, x.name+" "+strings.Join(strings.Fields(line), " "))
	}
	m.t.Logf("the most memory so far: %s", strings.Join(most, ", "))
}

// confined checks the process from outside: its user, its capabilities, its root.
func (x *instance) confined() {
	t := x.m.t
	t.Helper()
	x.mu.Lock()
	process := x.process.Pid
	x.mu.Unlock()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	testkit.Must(t, err)
	user := fmt.Sprint(*x.pod.spec.SecurityContext.RunAsUser)
	for field, want := range map[string]string{
		"Uid": strings.Join([]string{user, user, user, user}, "\t"), "CapEff": "0000000000000000",
		"CapPrm": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1",
	} {
		_, rest, _ := strings.Cut(string(raw), "\n"+field+":\t")
		if got, _, _ := strings.Cut(rest, "\n"); got != want {
			t.Errorf("%s: %s is %q, want %q", x.name, field, got, want)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", process))
	testkit.Must(t, err)
	written := map[string]bool{}
	for _, v := range x.pod.spec.Containers[0].VolumeMounts {
		written[v.MountPath] = !v.ReadOnly
	}
	roots := 0
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		at, options := fields[4], strings.Split(fields[5], ",")
		if at == "/" {
			roots++
		}
		if options[0] != "ro" && !written[at] {
			t.Errorf("%s can write to %s", x.name, at)
		}
	}
	if roots != 1 {
		t.Errorf("%s has %d roots in %s", x.name, roots, mounts)
	}
}
