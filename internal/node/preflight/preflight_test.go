package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const schemaText = `columns:
  - {name: x, kind: continuous, lower: 0, upper: 1}
  - {name: y, kind: categorical, categories: [no, yes]}
label: y
`

// place is a folder with everything that a node needs.
type place struct {
	t       testing.TB
	dir     string
	fields  map[string]string
	rows    int
	address string
	clock   time.Duration // how far its clock is ahead
}

func newPlace(t testing.TB) *place {
	t.Helper()
	return placeWith(t, issued(t))
}

// issued is a folder with certificates of two authorities.
func issued(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for folder, all := range map[string][]certs.Identity{
		"certs": {{Role: certs.RoleAggregator, Name: "a"}, {Role: certs.RoleNode, Name: "north"},
			{Role: certs.RoleStudent, Name: "north"}, {Role: certs.RoleNode, Name: "short"}},
		"foreign": {{Role: certs.RoleNode, Name: "north"}},
	} {
		folder = filepath.Join(dir, folder)
		testkit.Must(t, authority.Create(folder))
		for _, id := range all {
			validity, hosts := 100*24*time.Hour, []string(nil)
			if id.Name == "short" {
				validity = time.Hour
			}
			if id.Role == certs.RoleAggregator {
				hosts = []string{"127.0.0.1"}
			}
			testkit.Must(t, authority.Issue(folder, id.Role, id.Name, hosts, validity))
		}
	}
	return dir
}

// placeWith is a place with the certificates of another folder.
func placeWith(t testing.TB, certificates string) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "pre") // short, for the embedded etcd's socket
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &place{t: t, dir: dir, rows: 80, address: "127.0.0.1:1"}
	testkit.Must(t, os.CopyFS(dir, os.DirFS(certificates)))
	for _, key := range testkit.Value(filepath.Glob(p.path("*/*.key"))) {
		testkit.Must(t, os.Chmod(key, 0o600))
	}
	p.write("schema.yaml", schemaText)
	p.write("policy.yaml", "datasets: [{name: d, epsilon: 1, delta: 1e-5, pipelines: [embed], min_rows: 50}]\n")
	p.fields = map[string]string{
		"dataset": "d", "site": "north", "schema": "schema.yaml", "data": "data.csv", "teachers": "4",
		"policy": "policy.yaml", "audit_log": "audit.jsonl",
		"tls": "{ca: certs/ca.crt, cert: certs/node-north.crt, key: certs/node-north.key}",
	}
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

func (p *place) write(name, text string) {
	testkit.Must(p.t, os.WriteFile(p.path(name), []byte(text), 0o600))
}

// config writes the data and the configuration, and returns the configuration's path.
func (p *place) config() string {
	var b strings.Builder
	b.WriteString("x,y\n")
	for i := range p.rows {
		fmt.Fprintf(&b, "%v,%s\n", float64(i%10)/10, []string{"no", "yes"}[i%2])
	}
	if _, err := os.Stat(p.path("data.csv")); err != nil {
		p.write("data.csv", b.String())
	}
	text := "aggregator: " + p.address + "\n"
	for field, value := range p.fields {
		text += field + ": " + value + "\n"
	}
	p.write("teacher.yaml", text)
	return p.path("teacher.yaml")
}

func (p *place) check(o Options) *Report {
	o.Config = p.config()
	return Run(context.Background(), o)
}

// found returns the check with these words, and fails if there is none.
func found(t testing.TB, r *Report, status Status, name, says string) Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Status == status && c.Name == name && strings.Contains(c.Detail, says) {
			if (status == Problem || status == Warning) && c.Fix == "" {
				t.Errorf("%+v does not say how to fix it", c)
			}
			return c
		}
	}
	t.Errorf("no %s %q about %q in %+v", status, name, says, r.Checks)
	return Check{}
}

func TestANodeThatIsReady(t *testing.T) {
	p := newPlace(t)
	ready(t, p)
	p.fields["stream"] = "true"
	ready(t, p)
}

func ready(t *testing.T, p *place) {
	t.Helper()
	p.config()
	before := testkit.Names(t, p.dir)
	r := p.check(Options{Offline: true})
	if !r.OK {
		t.Errorf("problems: %+v", r.Checks)
	}
	for _, name := range []string{"config", "schema", "unit", "data", "teachers and state", "state folder", "policy",
		"site ledger", "certificate", "key", "audit log"} {
		found(t, r, OK, name, "")
	}
	found(t, r, OK, "teachers and state", "80 privacy units for 4 teachers")
	cert := pemfile.Certificates(testkit.Value(pemfile.Read(p.path("certs/node-north.crt"))))[0]
	found(t, r, OK, "certificate", "key "+certs.SpellFingerprint(testkit.Value(certs.Fingerprint(cert.PublicKey))))
	found(t, r, NotChecked, "network", "skipped")
	if after := testkit.Names(t, p.dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the check left something: %v, before %v", after, before)
	}
}

// Each of these is one problem, reported with its fix, and does not hide others.
func TestProblemsAreNamed(t *testing.T) {
	certificates := issued(t)
	r := Run(t.Context(), Options{Config: filepath.Join(t.TempDir(), "none.yaml"), Offline: true})
	found(t, r, Problem, "config", "none.yaml")
	found(t, r, NotChecked, "everything else", "")
	for name, c := range map[string]struct {
		spoil  func(p *place)
		status Status
		check  string
		says   string
	}{
		"unknown field": {func(p *place) { p.fields["teecher"] = "3" }, Problem, "config",
			`unknown field "teecher"`},
		"two bad fields": {func(p *place) { p.fields["teachers"], p.fields["node"] = "0", "A/B" }, Problem,
			"config", "teachers: 0 is not between"},
		"the other of them": {func(p *place) { p.fields["teachers"], p.fields["node"] = "0", "A/B" }, Problem,
			"config", `node: "A/B" is not a name`},
		"no schema": {func(p *place) { p.fields["schema"] = "none.yaml" }, Problem, "schema", "none.yaml"},
		"unit":      {func(p *place) { p.fields["unit"] = "person" }, Problem, "unit", "person"},
		"no data": {func(p *place) { p.fields["data"] = "none.csv" }, Problem, "data",
			"cannot read the table"},
		"a bad row": {func(p *place) { p.write("data.csv", "x,y\n0.5,no\nz,yes\n0.1,maybe\n") }, Problem,
			"data", "row 2"},
		"a bad row of a stream": {func(p *place) {
			p.fields["stream"] = "true"
			p.write("data.csv", "x,y\n0.5,no\nz,yes\n0.1,maybe\n")
		}, Problem, "data", "row 3"},
		"a stream of a database that counts": {func(p *place) {
			delete(p.fields, "data")
			p.fields["stream"], p.fields["sql"] = "true", "{dsn_env: DSN, query: select 1, pushdown: true}"
		}, Problem, "config", "stream: sql.pushdown is set too"},
		"another bad row": {func(p *place) { p.write("data.csv", "x,y\n0.5,no\nz,yes\n0.1,maybe\n") }, Problem,
			"data", "row 3"},
		"teachers": {func(p *place) { p.fields["teachers"] = "81" }, Problem, "teachers and state",
			"more partitions than privacy units"},
		"few rows": {func(p *place) { p.rows = 49 }, Problem, "minimum rows",
			"49 privacy units, but the policy requires 50"},
		"few rows of one": {func(p *place) {
			p.rows = 49
			p.write("policy.yaml", "datasets: [{name: d, epsilon: 1, delta: 1e-5, pipelines: [embed], "+
				"min_rows: 50, min_rows_per_teacher: 30}]\n")
		}, Problem, "minimum rows", "but the policy requires 30"},
		"few rows of a category": {func(p *place) {
			p.write("policy.yaml", "datasets: [{name: d, epsilon: 1, delta: 1e-5, pipelines: [embed], "+
				"least_records_by: [{column: y, least: 60}]}]\n")
		}, Problem, "minimum rows", `column "y" has "no" with `},
		"no column of categories": {func(p *place) {
			p.write("policy.yaml", "datasets: [{name: d, epsilon: 1, delta: 1e-5, pipelines: [embed], "+
				"least_records_by: [{column: x, least: 2}]}]\n")
		}, Problem, "minimum rows", `column "x" is not a categorical column`},
		"enough of each category": {func(p *place) {
			p.write("policy.yaml", "datasets: [{name: d, epsilon: 1, delta: 1e-5, pipelines: [embed], "+
				"least_records_by: [{column: y, least: 2}]}]\n")
		}, OK, "minimum rows", "each category of 1 column that occurs here has enough"},
		"no list": {func(p *place) {
			p.fields["tls"] = "{ca: certs/ca.crt, cert: certs/node-north.crt, key: certs/node-north.key, " +
				"revoked: none.crl}"
		}, Problem, "revoked", "none.crl"},
		"no list to be read": {func(p *place) {
			p.write("bad.crl", "xx")
			p.fields["tls"] = "{ca: certs/ca.crt, cert: certs/node-north.crt, key: certs/node-north.key, " +
				"revoked: bad.crl}"
		}, Problem, "revoked", "bad.crl"},
		"a password for all": {func(p *place) {
			p.write("dsn", "postgres://u:p@127.0.0.1:1/d?sslmode=disable")
			testkit.Must(p.t, os.Chmod(p.path("dsn"), 0o644))
			delete(p.fields, "data")
			p.fields["sql"] = "{dsn_file: dsn, query: SELECT x FROM t ORDER BY x}"
		}, Problem, "database", "mode 0644"},
		"no policy": {func(p *place) { delete(p.fields, "policy") }, Warning, "policy", "none"},
		"a bad policy": {func(p *place) { p.write("policy.yaml", "datasets: [{name: d}]") }, Problem, "policy",
			"datasets[0].epsilon"},
		"another of it": {func(p *place) { p.write("policy.yaml", "datasets: [{name: d}]") }, Problem, "policy",
			"datasets[0].pipelines"},
		"more sites than peers": {func(p *place) {
			p.write("policy.yaml", "datasets: [{name: d, epsilon: 1, delta: 1e-5, pipelines: [embed], masked: true, "+
				"least_sites: 3, peers: [{site: south, key: "+strings.Repeat("ab", 32)+"}]}]\n")
		}, Problem, "policy", "least_sites is 3, but the peers and this site are 2: no run is permitted"},
		"other dataset": {func(p *place) { p.fields["dataset"] = "e" }, Problem, "policy", "has no dataset e"},
		"a ledger's head": {func(p *place) { p.mkdir("state", 0o700); p.write("state/site-ledger-d.head", "{}") },
			Problem, "site ledger", "does not contain an entry"},
		"state readable": {func(p *place) { p.mkdir("state", 0o755) }, Problem, "state folder", "mode 0755"},
		"state a file":   {func(p *place) { p.write("state", "") }, Problem, "state folder", "is a file"},
		"key readable": {func(p *place) { testkit.Must(p.t, os.Chmod(p.path("certs/node-north.key"), 0o644)) },
			Problem, "key", "mode 0644"},
		"no certificate": {func(p *place) { p.tls("certs", "node-none", "node-north") }, Problem, "certificate",
			"node-none.crt"},
		"another's key": {func(p *place) { p.tls("certs", "node-north", "node-short") }, Problem, "certificate",
			"node-short.key"},
		"another site": {func(p *place) { p.tls("certs", "node-short", "node-short") }, Problem, "certificate",
			"for site short"},
		"ends soon": {func(p *place) {
			p.tls("certs", "node-short", "node-short")
			p.fields["site"] = "short"
		}, Warning, "expiry", "node-short.crt expires on"},
		"a student's": {func(p *place) { p.tls("certs", "student-north", "student-north") }, Problem,
			"certificate", "for student north"},
		"foreign authority": {func(p *place) { p.tls("foreign", "node-north", "node-north") }, Problem,
			"certificate", "against"},
		"no authority": {func(p *place) { p.write("certs/ca.crt", "nothing") }, Problem, "authority",
			"has no certificate"},
		"audit log a folder": {func(p *place) { p.mkdir("audit.jsonl", 0o700) }, Problem, "audit log",
			"is a directory"},
		"lost partition key": {func(p *place) {
			p.started()
			testkit.Must(p.t,
				os.Remove(p.path("state/partition.key")))
		}, Problem, "teachers and state", "partition.key is missing"},
		"other data": {func(p *place) {
			p.started()
			p.write("data.csv", "x,y\n"+strings.Repeat("0.5,no\n", 90))
		}, Problem, "teachers and state", "manifest"},
		"a clock in the past": {func(p *place) { p.clock = -48 * time.Hour }, Problem, "clock", "is not valid before"},
		"a clock beyond":      {func(p *place) { p.clock = 101 * 24 * time.Hour }, Problem, "expiry", "expired on"},
	} {
		t.Run(name, func(t *testing.T) {
			p := placeWith(t, certificates)
			c.spoil(p)
			r := p.check(Options{Offline: true, Now: func() time.Time { return time.Now().Add(p.clock) }})
			found(t, r, c.status, c.check, c.says)
			if r.OK == (c.status == Problem) {
				t.Errorf("ok is %v", r.OK)
			}
		})
	}
}

func (p *place) mkdir(name string, mode os.FileMode) {
	testkit.Must(p.t, os.Mkdir(p.path(name), mode))
	testkit.Must(p.t, os.Chmod(p.path(name), mode))
}

func (p *place) tls(folder, cert, key string) {
	p.fields["tls"] = fmt.Sprintf("{ca: certs/ca.crt, cert: %s/%s.crt, key: %s/%s.key}", folder, cert, folder, key)
}

// started creates a state folder as left by a welcomed node.
func (p *place) started() {
	p.t.Helper()
	c, err := node.LoadConfig(p.config())
	testkit.Must(p.t, err)
	schema, err := partition.LoadSchema(c.Schema)
	testkit.Must(p.t, err)
	table, err := tabular.Read(schema, c.Data, tabular.Options{Site: c.Site})
	testkit.Must(p.t, err)
	site, err := node.NewSite(c, table, nil)
	testkit.Must(p.t, err)
	_, err = site.Node(c.Aggregator, zap.NewNop())
	testkit.Must(p.t, err)
	key, err := partition.LoadOrCreateKey(filepath.Join(c.State, "partition.key"))
	testkit.Must(p.t, err)
	m, err := partition.BuildManifest(key, c.Dataset, c.Site, c.Node, table, c.Teachers, c.Unit)
	testkit.Must(p.t, err)
	testkit.Must(p.t, m.Save(filepath.Join(c.State, "manifest.json")))
}

// startAggregator starts a real aggregator for the place.
func (p *place) startAggregator() {
	p.t.Helper()
	c := aggregator.DefaultConfig()
	c.Name, c.Listen, c.TLS = "a", "127.0.0.1:0", certs.IssuedFiles(p.path("certs"), certs.RoleAggregator, "a")
	c.Etcd.Embedded, c.Etcd.Dir, c.Drain = true, p.path("etcd"), 0
	c.Datasets = []aggregator.DatasetConfig{{Name: "d", Schema: p.path("schema.yaml"), Unit: "record",
		Budget: privacy.Budget{Epsilon: 3, Delta: 1e-5}}}
	ctx, cancel := context.WithCancel(context.Background())
	server, err := aggregator.New(ctx, c, aggregator.Options{})
	testkit.Must(p.t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		testkit.Must(p.t, errors.Join(testkit.Receive(p.t, served), server.Close()))
	})
	p.address = server.Addr().String()
}

// Against a real aggregator: the way there, who leads, and whether the node would be admitted, without admitting it.
func TestTheWayToTheAggregator(t *testing.T) {
	p := newPlace(t)
	p.startAggregator()
	r := p.check(Options{})
	if !r.OK {
		t.Errorf("problems: %+v", r.Checks)
	}
	found(t, r, OK, "port", p.address)
	found(t, r, OK, "tls", "has a valid aggregator certificate")
	found(t, r, OK, "clock", "")
	found(t, r, OK, "leader", "answers nodes")
	found(t, r, OK, "dataset", "budget of epsilon 3 at delta 1e-05; this node has never joined; teachers connected: 0")

	// A standby that does not listen is not a problem.
	leader := p.address
	p.address = "'127.0.0.1:1, " + leader + "'"
	if r = p.check(Options{}); !r.OK {
		t.Errorf("problems: %+v", r.Checks)
	}
	found(t, r, Warning, "port", "refused")
	p.address = "'no-such-host.invalid:7443, " + leader + "'"
	found(t, p.check(Options{}), Problem, "name", "no-such-host.invalid")
	p.address = "127.0.0.1:1"
	found(t, p.check(Options{}), Problem, "aggregator", "cannot be reached")
	p.address = leader

	// Reasons for which the aggregator would refuse the node.
	p.fields["dataset"] = "e"
	delete(p.fields, "policy")
	found(t, p.check(Options{}), Problem, "dataset", `"e"`)
	p.fields["dataset"] = "d"
	p.write("schema.yaml", strings.Replace(schemaText, "upper: 1", "upper: 2", 1))
	found(t, p.check(Options{}), Problem, "dataset", "has schema")
	p.write("schema.yaml", schemaText)
	p.fields["server_name"] = "elsewhere"
	found(t, p.check(Options{}), Problem, "tls", "elsewhere")
	delete(p.fields, "server_name")
	p.tls("foreign", "node-north", "node-north")
	p.fields["tls"] = strings.Replace(p.fields["tls"], "certs/ca.crt", "foreign/ca.crt", 1)
	found(t, p.check(Options{}), Problem, "tls", "")
	p.tls("certs", "node-north", "node-north")

	// A server that does not speak TLS.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 mail.example ESMTP\r\n"))
			conn.Close()
		}
	}()
	p.address = l.Addr().String()
	found(t, p.check(Options{}), Problem, "tls", "")
	testkit.Must(t, l.Close())
	testkit.Receive(t, done)
	p.address = leader

	// The port of the node's own listener is taken, perhaps by itself.
	own, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer own.Close()
	p.fields["http"] = "{listen: '" + own.Addr().String() + "'}"
	found(t, p.check(Options{Offline: true}), Problem, "http port", "address already in use")
}
