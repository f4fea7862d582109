package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/renameio/v2"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// replicas is the number of aggregators, and of etcd members.
const replicas = 3

var sites = [4]string{"north", "south", "east", "west"}

const (
	// wide is the dataset of all sites but the last, with a budget for everything.
	wide = "wide"
	// tight is the last dataset, whose budget is used up.
	tight = "tight"
	// hidden is the dataset of masked runs; see masked_test.go.
	hidden = "hidden"

	nodeTeachers = 2
	nodeRows     = 24
	schemaText   = `label: died
columns:
  - {name: age, kind: integer, lower: 0, upper: 100}
  - {name: dose, kind: continuous, lower: 0, upper: 1}
  - {name: ward, kind: categorical, categories: [a, b, c]}
  - {name: died, kind: binary}
`
)

// Budgets of the datasets. tight has enough for a few runs of epsilon 3.
var budgets = map[string]string{
	wide:  "{epsilon: 2000, delta: 1e-4, filter: rdp}",
	tight: "{epsilon: 6, delta: 1e-4}",

	hidden: "{epsilon: 2000, delta: 1e-4, filter: rdp}",
}

// cluster is everything that runs.
type cluster struct {
	t     *testing.T
	dir   string
	net   *network // nil on the loopback
	lease string
	told  *happenings
	hooks bool
	bin   string // folder with the programs

	servers
	schema *partition.Schema

	mu      sync.Mutex
	readers []*process       // current students and readers
	fences  map[int64]string // fence -> aggregator and start
	posted  []posting
}

// servers are the processes of a cluster that run for the whole test.
type servers struct {
	aggregators, etcds, nodes []*process
	addresses                 []string          // of the aggregators themselves
	labs                      string            // where students reach them
	reach                     map[string]string // where sites reach them
	members                   []string          // the nodes of the hidden dataset, also among the nodes
	clients                   []string          // of etcd's members
	proxies                   []*clustertest.Proxy
}

// posting is a line of an aggregator's log: it released a round while it led with a fence.
type posting struct {
	who   string
	fence int64
	run   string
	round uint64
	seq   uint64
}

// newCluster writes all files and starts etcd, aggregators and nodes. With hooks all aggregators except the first
// have hooks, and with parts each place has its own namespace.
func newCluster(t *testing.T, nodes int, lease string, hooks, parts bool) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: *keep, lease: lease, told: &happenings{}, hooks: hooks, bin: filepath.Join(built, "bin"),
		fences: map[int64]string{}}
	if c.dir == "" {
		c.dir = t.TempDir()
	} else {
		c.dir = c.path(t.Name())
		testkit.Must(t, os.MkdirAll(c.dir, 0o700))
	}
	var places []string
	for i := range replicas {
		places = append(places, fmt.Sprintf("agg%d", i), fmt.Sprintf("etcd%d", i))
	}
	places = append(places, sites[:]...)
	switch {
	case !parts:
	case open != "":
		t.Logf("SKIPPED: partitions between network namespaces (%s)", open)
	default:
		var err error
		if c.net, err = newNetwork(places...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.net.remove(); err != nil {
				t.Error(err)
			}
		})
	}
	c.prepare()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		for _, p := range slices.Concat(c.running(), c.nodes, c.aggregators, c.etcds) {
			p.close()
		}
	})
	c.startEtcd(ctx)
	c.startAggregators(ctx)
	c.startNodes(ctx, nodes)
	return c
}

// prepare writes schema and certificates.
func (c *cluster) prepare() {
	c.t.Helper()
	hosts := []string{"127.0.0.1"}
	if c.net != nil {
		hosts = append(hosts, network0)
		for i := range replicas {
			hosts = append(hosts, c.net.host(fmt.Sprintf("agg%d", i)))
		}
	}
	c.write("schema.yaml", schemaText)
	schema, err := partition.LoadSchema(c.path("schema.yaml"))
	if err == nil {
		c.schema = schema
		err = clustertest.Certificates(c.path("certs"), hosts, sites[:]...)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (c *cluster) write(name, text string) string {
	c.t.Helper()
	// A process that reads an earlier version of the file never finds a part of it.
	testkit.Must(c.t, renameio.WriteFile(c.path(name), []byte(text), 0o600))
	return c.path(name)
}

func (c *cluster) tls(role certs.Role, name string) string {
	return clustertest.TLS(certs.IssuedFiles(c.path("certs"), role, name))
}

// process makes a process that runs at a place.
func (c *cluster) process(name, place string, environment []string, command ...string) *process {
	return &process{
		name: name, log: c.path(name + ".log"), told: c.told, extra: environment,
		command: append(c.net.enter(place), command...),
	}
}

// between puts a proxy in front of an address and returns the proxy's address.
func (c *cluster) between(name, target string) string {
	p := clustertest.NewProxy(c.t, name, net.JoinHostPort(c.net.host(""), "0"), target)
	c.proxies = append(c.proxies, p)
	return p.Addr()
}

func (c *cluster) startEtcd(ctx context.Context) {
	var at, members []string
	for i := range replicas {
		host := c.net.host(fmt.Sprintf("etcd%d", i))
		client, peer := testkit.FreeAddress(c.t, host), testkit.FreeAddress(c.t, host)
		c.clients = append(c.clients, client)
		at = append(at, client+","+peer)
		members = append(members, fmt.Sprintf("member%d=http://%s", i, peer))
	}
	for i := range replicas {
		name := fmt.Sprintf("etcd%d", i)
		p := c.process(name, name, []string{clustertest.RoleVariable + "=" + clustertest.Etcd}, executable(c.t),
			c.path(fmt.Sprintf("member%d", i)), at[i], strings.Join(members, ","))
		// A member that briefly loses its disk lock or its ports ends, as etcd is designed to.
		p.failed = func(int, string) bool { c.told.count("etcd members that ended by themselves", 1); return false }
		c.etcds = append(c.etcds, p)
		p.supervise(ctx)
	}
}

func executable(t *testing.T) string {
	path, err := os.Executable()
	testkit.Must(t, err)
	return path
}

func (c *cluster) startAggregators(ctx context.Context) {
	for i := range replicas {
		name := fmt.Sprintf("agg%d", i)
		file := c.aggregatorFile(i)
		command, environment := []string{filepath.Join(c.bin, "aggregator"), "--config", file}, []string(nil)
		if c.hooks && i > 0 {
			if err := os.Mkdir(c.traps(i), 0o700); err != nil {
				c.t.Fatal(err)
			}
			command, environment = []string{executable(c.t), file, c.traps(i)},
				[]string{clustertest.RoleVariable + "=" + clustertest.Trapped}
		}
		p := c.process(name, name, environment, command...)
		p.failed = func(_ int, said string) bool {
			switch {
			case strings.Contains(said, "leadership lost"), strings.Contains(said, "no longer the leader"):
				c.told.count("aggregators that ended because leadership was lost", 1)
			case strings.Contains(said, "etcd unavailable"):
				c.told.count("aggregators that ended because etcd was away", 1)
			default:
				c.told.blame("%s ended by itself: %s", name, said)
			}
			return false
		}
		p.line = func(start int, l clustertest.Line) { c.read(name, start, l) }
		c.aggregators = append(c.aggregators, p)
		p.supervise(ctx)
	}
}

// traps is the folder of an aggregator with hooks. The first is the shipped program and has none.
func (c *cluster) traps(i int) string { return c.path(fmt.Sprintf("traps-agg%d", i)) }

func (c *cluster) aggregatorFile(i int) string {
	name := fmt.Sprintf("agg%d", i)
	address := testkit.FreeAddress(c.t, c.net.host(name))
	c.addresses = append(c.addresses, address)
	var endpoints, datasets []string
	for j, client := range c.clients {
		endpoints = append(endpoints, "'http://"+c.between(fmt.Sprintf("%s to etcd%d", name, j), client)+"'")
	}
	for _, d := range []string{wide, tight, hidden} {
		datasets = append(datasets, fmt.Sprintf("{name: %s, schema: %s, budget: %s}",
			d, c.path("schema.yaml"), budgets[d]))
	}
	return c.write(name+".yaml", fmt.Sprintf(`name: %s
listen: %s
tls: %s
etcd: {endpoints: [%s], insecure: true, lease_ttl: %s}
datasets: [%s]
audit_log: %s
drain: 2s
log: {format: json}
`, name, address, c.tls(certs.RoleAggregator, "aggregator"), strings.Join(endpoints, ", "), c.lease,
		strings.Join(datasets, ", "), c.path("audit-"+name+".jsonl")))
}

// read records when an aggregator leads, and what it releases.
func (c *cluster) read(name string, start int, l clustertest.Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := fmt.Sprintf("%s, start %d", name, start)
	switch l.Message {
	case "listening":
		if before, ok := c.fences[l.Fence]; ok && before != who {
			c.told.blame("%s and %s both lead with fence %d", before, who, l.Fence)
		}
		c.fences[l.Fence] = who
	case "released":
		fence := int64(0)
		for f, w := range c.fences {
			if w == who {
				fence = f
			}
		}
		c.posted = append(c.posted, posting{who, fence, l.Run, l.Round, l.Seq})
	}
}

func (c *cluster) startNodes(ctx context.Context, nodes int) {
	draw := rand.New(rand.NewPCG(1, 2))
	c.reach = map[string]string{}
	for _, from := range append(sites[:], "students") {
		var via []string
		for i, a := range c.addresses {
			via = append(via, c.between(fmt.Sprintf("%s to agg%d", from, i), a))
		}
		c.reach[from] = strings.Join(via, ", ")
	}
	c.labs = c.reach["students"]
	for i := range nodes {
		site := sites[i%len(sites)]
		c.startNode(ctx, draw, site, fmt.Sprint(i/len(sites)), datasetOf(site), "")
	}
}

// startNode starts a node with its own rows; more is additional configuration.
func (c *cluster) startNode(ctx context.Context, draw *rand.Rand, site, node, dataset, more string) {
	name := site + node
	var rows strings.Builder
	rows.WriteString("age,dose,ward,died\n")
	for r := range nodeRows {
		fmt.Fprintf(&rows, "%d,%.3f,%c,%d\n", draw.IntN(101), draw.Float64(), 'a'+rune(draw.IntN(3)), r%2)
	}
	file := c.write(name+".yaml", fmt.Sprintf(`aggregator: '%s'
dataset: %s
site: %s
node: '%s'
schema: %s
data: %s
teachers: %d
state: %s
tls: %s
reconnect: 1s
drain: 2s
audit_log: %s
log: {format: json}
%s`, c.reach[site], dataset, site, node, c.path("schema.yaml"), c.write(name+".csv", rows.String()), nodeTeachers,
		c.path("state-"+name), c.tls(certs.RoleNode, site), c.path("audit-"+name+".jsonl"), more))
	p := c.process(name, site, nil, filepath.Join(c.bin, "teacher"), "--config", file)
	c.nodes = append(c.nodes, p)
	p.supervise(ctx)
}

func datasetOf(site string) string {
	if site == sites[len(sites)-1] {
		return tight
	}
	return wide
}

// teachers is the number of a dataset's teachers.
func (c *cluster) teachers(dataset string) (n int) {
	if dataset == hidden {
		return len(c.members) * nodeTeachers
	}
	for i := range len(c.nodes) - len(c.members) {
		if datasetOf(sites[i%len(sites)]) == dataset {
			n += nodeTeachers
		}
	}
	return n
}

// running are the current students and readers.
func (c *cluster) running() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.readers)
}

// endpoints are the addresses of etcd's members for the test itself.
func (c *cluster) endpoints() []string {
	urls := make([]string, len(c.clients))
	for i, address := range c.clients {
		urls[i] = "http://" + address
	}
	return urls
}

// audit starts an auditor of all datasets.
func (c *cluster) audit() *clustertest.Auditor {
	return clustertest.Audit(c.t, c.endpoints(), map[string]int{wide: c.teachers(wide), tight: c.teachers(tight),
		hidden: c.teachers(hidden)}, c.told.blame)
}
