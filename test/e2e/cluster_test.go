package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// dataset is the name of the dataset in all these clusters, siteTeachers the number of teachers at each of their two
// sites.
const (
	dataset      = "flchain"
	siteTeachers = 20
	allTeachers  = 2 * siteTeachers
)

// cluster is a folder with the configuration of a cluster's roles.
type cluster struct {
	t       *testing.T
	dir     string
	address string       // of the aggregator
	paced   string       // slow address for students, to make rounds last
	etcd    string       // the `etcd:` part of its configuration
	next    atomic.Int64 // numbers configuration files, also of parallel cases
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	// A short path: the embedded etcd listens on a Unix socket below it.
	dir, err := os.MkdirTemp("", "e2e")
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &cluster{
		t: t, dir: dir, address: testkit.FreeAddress(t, "127.0.0.1"),
		etcd: fmt.Sprintf("{embedded: true, dir: %s}", filepath.Join(dir, "etcd")),
	}
}

// settings are the fields of a YAML file, values written as YAML.
type settings map[string]string

// write writes a YAML file of fields with later changes, where an empty value removes a field, and returns its path.
func (c *cluster) write(name string, fields settings, changes ...settings) string {
	c.t.Helper()
	for _, change := range changes {
		maps.Copy(fields, change)
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if fields[key] != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, fields[key])
		}
	}
	path := filepath.Join(c.dir, fmt.Sprintf("%s-%d.yaml", name, c.next.Add(1)))
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func issued(role certs.Role, name string) string {
	return clustertest.TLS(certs.IssuedFiles(built.certs, role, name))
}

func (c *cluster) aggregatorFile(changes ...settings) string {
	return c.write("aggregator", settings{
		"name":   "aggregator",
		"listen": c.address,
		"tls":    issued(certs.RoleAggregator, "aggregator"),
		"etcd":   c.etcd,
		"datasets": fmt.Sprintf("[{name: %s, schema: %s, unit: record, budget: {epsilon: 20, delta: 1e-4}}]",
			dataset, built.schema),
	}, changes...)
}

func (c *cluster) nodeFile(site string, changes ...settings) string {
	data := built.north
	if site == "south" {
		data = built.south
	}
	return c.write("teacher-"+site, settings{
		"aggregator": c.address,
		"dataset":    dataset,
		"site":       site,
		"schema":     built.schema,
		"data":       data,
		"teachers":   strconv.Itoa(siteTeachers),
		"state":      c.state(site),
		"tls":        issued(certs.RoleNode, site),
		"reconnect":  "200ms",
		"log":        "{level: debug}",
	}, changes...)
}

// state is the state folder of a node.
func (c *cluster) state(site string) string { return filepath.Join(c.dir, "state-"+site) }

// job is a small run.
type job struct {
	name   string
	rounds int // of 16 votes each
	quorum float64
	// deadline is the number of seconds that a round waits for the rest; 0 means 60.
	deadline float64
	// changes replace fields of the run.yaml.
	changes settings
}

func (c *cluster) runFile(j job) string {
	c.t.Helper()
	if j.deadline == 0 {
		j.deadline = 60
	}
	return c.write("run-"+j.name, settings{
		"name":     j.name,
		"schema":   built.schema,
		"privacy":  "{epsilon: 10, delta: 1e-5}",
		"teachers": strconv.Itoa(allTeachers),
		"release":  "{rows: 200}",
		"pipeline": "pategan", "warm_start": "{embed: 0}",
		// The quality of the student does not matter here: it takes small steps, one per round.
		"pategan": fmt.Sprintf("{labels: %d, queries: 16, quorum: %v, deadline: %v, student: {hidden: 8, layers: 1, "+
			"generator_steps: 2, step: 0.01}}",
			16*j.rounds, j.quorum, j.deadline),
	}, j.changes)
}

func (c *cluster) studentFile(run, out string, changes ...settings) string {
	address := c.address
	if c.paced != "" {
		address = c.paced
	}
	return c.write("student", settings{
		"aggregator": address,
		"dataset":    dataset,
		"run":        run,
		"out":        out,
		"tls":        issued(certs.RoleStudent, "lab"),
		"retry":      "200ms",
	}, changes...)
}

// out is a folder for a student's results.
func (c *cluster) out(name string) string { return filepath.Join(c.dir, "out-"+name) }

func (c *cluster) startAggregator(file string) *process {
	c.t.Helper()
	return start(c.t, "aggregator", binary("aggregator"), "--config", file)
}

func (c *cluster) startNode(site string, changes ...settings) *process {
	c.t.Helper()
	return start(c.t, "teacher "+site, binary("teacher"), "--config", c.nodeFile(site, changes...))
}

func (c *cluster) startStudent(file string) *process {
	c.t.Helper()
	return start(c.t, "student", binary("student"), "--config", file)
}

// startSites starts both nodes and waits until they have joined.
func (c *cluster) startSites() (north, south *process) {
	c.t.Helper()
	north, south = c.startNode("north"), c.startNode("south")
	north.awaitLog("joined", nil)
	south.awaitLog("joined", nil)
	return north, south
}

// awaitRound waits until the aggregator has released a round.
func awaitRound(aggregator *process, round uint64) {
	aggregator.t.Helper()
	aggregator.awaitLog("released", func(l clustertest.Line) bool { return l.Round >= round })
}

// pace is the delay of a message between a student and an aggregator, in clusters whose runs must last. Rounds cost
// time of processors, and waiting does not: few slow ones last as long as many.
const pace = 100 * time.Millisecond

// slowDown gives the students configured from now on a slow connection to the aggregators, so that a run lasts until
// the test has acted in its middle.
func (c *cluster) slowDown() {
	c.t.Helper()
	var paced []string
	for _, address := range strings.Split(strings.Trim(c.address, "'"), ", ") {
		line := clustertest.NewProxy(c.t, "", "127.0.0.1:0", address)
		line.Set(func(p *clustertest.Proxy) { p.Pace = pace })
		paced = append(paced, line.Addr())
	}
	c.paced = "'" + strings.Join(paced, ", ") + "'"
}
