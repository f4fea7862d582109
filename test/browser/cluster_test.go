package browser

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

const teachers = 10 // at each of two sites

// bin is the folder of the programs.
var bin string

// build builds them, if there is a browser.
var build = sync.OnceValue(func() error {
	return testkit.Programs(bin, []string{"aggregator", "teacher", "student", "conclave"})
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests of the console:", err)
		os.Exit(1)
	}
	bin = filepath.Join(dir, "bin")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// cluster is an aggregator, the sites north and south, and a worker, each a process.
type cluster struct {
	t       *testing.T
	dir     string
	address string
	nodes   map[string]*clustertest.Program
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	needed(t)
	testkit.Must(t, build())
	dir, err := os.MkdirTemp("", "browser") // short, for the Unix socket below it
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cluster{t: t, dir: dir, address: testkit.FreeAddress(t, "127.0.0.1"),
		nodes: map[string]*clustertest.Program{}}
	testkit.Must(t, clustertest.Certificates(c.path("certs"), []string{"127.0.0.1"}, "north", "south"))
	testkit.Must(t, authority.Issue(c.path("certs"), certs.RoleOperator, "olga", nil, 48*time.Hour))
	c.write("aggregator.yaml", "name: aggregator\nlisten: %s\ntls: %s\netcd: {embedded: true, dir: etcd}\n"+
		"datasets: [{name: flchain, schema: schema.yaml, unit: record, budget: {epsilon: 20, delta: 1e-4}}]\n",
		c.address, c.tls(certs.RoleAggregator, "aggregator"))
	example := filepath.Join("..", "..", "examples", "flchain")
	schema := testkit.Read(t, filepath.Join(example, "schema.yaml"))
	c.write("schema.yaml", "%s", schema)
	packed, err := os.Open(filepath.Join(example, "train.csv.gz"))
	testkit.Must(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	testkit.Must(t, err)
	rows, err := io.ReadAll(unpacked)
	testkit.Must(t, err)
	lines := bytes.SplitAfter(rows, []byte("\n"))
	for i, site := range []string{"north", "south"} {
		c.write(site+".csv", "%s%s", lines[0], bytes.Join(lines[1+2000*i:2001+2000*i], nil))
		approval := "by-hand"
		if site == "south" {
			approval = "automatic"
		}
		c.write("policy-"+site+".yaml", "datasets:\n  - {name: flchain, epsilon: 20, delta: 1e-4, "+
			"pipelines: [pategan, marginals], approval: %s}\n", approval)
		c.write("teacher-"+site+".yaml", "aggregator: %s\ndataset: flchain\nsite: %s\nschema: schema.yaml\n"+
			"data: %s.csv\nteachers: %d\nstate: state-%s\npolicy: policy-%s.yaml\naudit_log: audit-%s.jsonl\n"+
			"reconnect: 200ms\nhttp: {listen: %s}\ntls: %s\n", c.address, site, site, teachers, site, site, site,
			testkit.FreeAddress(t, "127.0.0.1"), c.tls(certs.RoleNode, site))
	}
	connection := "aggregator: " + c.address + "\ndataset: flchain\nretry: 200ms\ntls: %s\n"
	c.write("operator.yaml", connection, c.tls(certs.RoleOperator, "olga"))
	c.write("student.yaml", connection, c.tls(certs.RoleStudent, "lab"))
	c.write("worker.yaml", connection+"queue: true\nout: out\nworker: w\n", c.tls(certs.RoleStudent, "lab"))
	c.await(c.start("aggregator", "--config", c.path("aggregator.yaml")), "listening")
	for _, site := range []string{"north", "south"} {
		c.startNode(site)
	}
	c.await(c.start("student", "--config", c.path("worker.yaml")), "waiting for runs")
	return c
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(name, format string, args ...any) {
	c.t.Helper()
	testkit.Must(c.t, os.WriteFile(c.path(name), fmt.Appendf(nil, format, args...), 0o600))
}

// tls includes the revocation list, so that a revocation takes effect at once.
func (c *cluster) tls(role certs.Role, name string) string {
	text := clustertest.TLS(certs.IssuedFiles(c.path("certs"), role, name))
	return strings.TrimSuffix(text, "}") + ", revoked: " + certs.RevokedFile(c.path("certs")) + "}"
}

func (c *cluster) start(program string, args ...string) *clustertest.Program {
	c.t.Helper()
	p, err := clustertest.Start(nil, nil, append([]string{filepath.Join(bin, program)}, args...)...)
	testkit.Must(c.t, err)
	c.t.Cleanup(func() {
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.Done:
		case <-time.After(10 * time.Second):
			_ = p.Cmd.Process.Kill()
			<-p.Done
		}
		if c.t.Failed() {
			c.t.Logf("%s %v:\n%s", program, args, p.Stderr.Tail(15))
		}
	})
	return p
}

func (c *cluster) startNode(site string) {
	c.t.Helper()
	c.nodes[site] = c.start("teacher", "--config", c.path("teacher-"+site+".yaml"))
	c.await(c.nodes[site], "joined")
}

func (c *cluster) await(p *clustertest.Program, message string) {
	c.t.Helper()
	testkit.Eventually(c.t, message, func() bool { return len(p.Stderr.Logged(message)) > 0 })
}

// console starts a console, and returns the address that it prints.
func (c *cluster) console(program, file string, more ...string) string {
	c.t.Helper()
	p := exec.Command(filepath.Join(bin, program), append([]string{"console", "--config", c.path(file)}, more...)...)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	testkit.Must(c.t, err)
	testkit.Must(c.t, p.Start())
	c.t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGTERM)
		if err := p.Wait(); err != nil {
			c.t.Errorf("%s console --config %s: %v", program, file, err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	testkit.Must(c.t, err)
	return strings.TrimSpace(address)
}
