package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/internal/etcdserver"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
		return
	}
	flag.Parse()
	testkit.WaitTogether()
	goleak.VerifyTestMain(m)
}

// runEtcd runs an etcd on dir until the test ends.
func runEtcd(t testing.TB, dir string) *etcdserver.Server {
	t.Helper()
	e, err := etcdserver.Start(context.Background(), etcdserver.Config{Dir: dir})
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// openStore opens a store that waits as long as a test does, unless told otherwise.
func openStore(t testing.TB, c Config) *Store {
	t.Helper()
	c = patient(c)
	s, err := Open(testkit.Within(t), c)
	testkit.Must(t, err)
	s.part = smallPart
	t.Cleanup(func() { s.Close() })
	return s
}

func patient(c Config) Config {
	c.DialTimeout = cmp.Or(c.DialTimeout, testkit.Patience)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, testkit.Patience)
	return c
}

func leadAs(t testing.TB, s *Store, name string) *Leadership {
	t.Helper()
	l, err := s.Lead(testkit.Within(t), name, 2*testkit.Patience) // so no test waits until a lease ends
	testkit.Must(t, err)
	return l
}

var testDataset = Dataset{
	Name:         "flchain",
	Budget:       privacy.Budget{Epsilon: 3, Delta: 1e-5},
	SchemaSHA256: "5c0ffee",
	Unit:         "record",
}

func testRun(name string) Run {
	return Run{Name: name, Dataset: "flchain", Spec: []byte("spec of " + name),
		Budget: privacy.Budget{Epsilon: 1, Delta: 1e-5}, Plan: testPlan(), Student: "ada", Facts: testFacts}
}

var testFacts = ledger.Facts{Pipeline: "pategan", SchemaSHA256: strings.Repeat("ab", 32), Teachers: 4}

// testSigmas are the noise scales of votes that a test's run may ask for, as often as its budget allows.
var testSigmas = []float64{200, 1e5, 20, 12, 9, 6, 1, .1}

func testPlan() (plan privacy.Plan) {
	for _, sigma := range testSigmas {
		plan = append(plan, privacy.Planned{Kind: "votes", Mechanism: privacy.Event{Kind: privacy.GNMax, Sigma: sigma}})
	}
	return plan
}

// votes uses the entry of testPlan with this noise.
func votes(sigma float64, queries int64) privacy.Use {
	return privacy.Use{Planned: slices.Index(testSigmas, sigma), Queries: queries, Answered: queries}
}

// costOf is the cost of a charge of a test's run.
func costOf(c Charge) []privacy.Event { return testPlan()[c.Use.Planned].Worst(c.Use.Queries) }

// testCharge costs little: a few hundred fit the run's budget.
func testCharge(run string, round uint64, release string) Charge {
	return Charge{Question: Question{Run: run, Round: round, Use: votes(200, 4)}, Release: []byte(release)}
}

// cluster is an etcd with a store that leads, a dataset and a run "first".
type cluster struct {
	dir   string
	etcd  *etcdserver.Server
	store *Store
	lead  *Leadership
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	c.etcd = runEtcd(t, c.dir)
	c.store = openStore(t, Config{Endpoints: c.etcd.Endpoints()})
	c.lead = leadAs(t, c.store, "agg")
	testkit.Must(t, c.store.OpenDataset(testkit.Within(t), c.lead, testDataset))
	existing, err := c.store.OpenRun(testkit.Within(t), c.lead, testRun("first"))
	if err != nil || existing {
		t.Fatalf("existing %v, %v", existing, err)
	}
	return c
}

func mustOpen(t testing.TB, s *Store, lead *Leadership, r Run) {
	t.Helper()
	_, err := s.OpenRun(testkit.Within(t), lead, r)
	testkit.Must(t, err)
}

func mustClose(t testing.TB, s *Store, lead *Leadership, run string) {
	t.Helper()
	_, _, err := s.CloseRun(testkit.Within(t), lead, run, "", "")
	testkit.Must(t, err)
}

func mustCharge(t testing.TB, s *Store, lead *Leadership, c Charge) {
	t.Helper()
	_, _, err := s.Charge(testkit.Within(t), lead, c)
	testkit.Must(t, err)
}

// wantAnswer charges a round and checks which release is returned for it.
func wantAnswer(t testing.TB, s *Store, lead *Leadership, c Charge, want string) {
	t.Helper()
	release, _, err := s.Charge(testkit.Within(t), lead, c)
	if err != nil || string(release) != want {
		t.Errorf("round %d of run %s: %q, %v; want %q", c.Round, c.Run, release, err, want)
	}
}

// ledgerOf returns the entries after they pass the auditor's check.
func ledgerOf(t testing.TB, s *Store) ([]ledger.Entry, ledger.Verification) {
	t.Helper()
	entries, err := s.Ledger(testkit.Within(t), testDataset.Name)
	testkit.Must(t, err)
	var lines bytes.Buffer
	for _, e := range entries {
		line, err := e.Canonical()
		testkit.Must(t, err)
		lines.Write(append(line, '\n'))
	}
	v, err := ledger.Verify(&lines)
	if err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		t.Fatal(err)
	}
	return entries, v
}
