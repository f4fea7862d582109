package coordinator

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/coordinator/etcdtest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The aggregator's etcd user may read and write keys under the prefix, and that is enough for everything that a store
// does: no key, lease or watch is elsewhere.
func TestAUserOfThePrefixIsEnough(t *testing.T) {
	t.Parallel()
	users := etcdtest.WithUsers(t, "/conclave/")
	config := Config{Endpoints: []string{users.Endpoint}, TLS: users.TLS(t, etcdtest.Ledger)}
	c := &cluster{store: openStore(t, config)}
	c.lead = leadAs(t, c.store, "agg")
	ctx := testkit.Within(t)
	testkit.Must(t, c.store.OpenDataset(ctx, c.lead, testDataset))
	mustOpen(t, c.store, c.lead, testRun("first"))
	large := testCharge("first", 0, strings.Repeat("large", 1000)) // in parts
	mustCharge(t, c.store, c.lead, large)
	testkit.Must(t, c.store.Ask(ctx, c.lead, testCharge("first", 1, "").Question))
	forgets := testCharge("first", 1, "answer")
	forgets.Forget = 1
	mustCharge(t, c.store, c.lead, forgets)
	testkit.Must(t, c.store.AdmitNode(ctx, c.lead, testNode()))
	if nodes, err := c.store.Nodes(ctx, "flchain"); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %v, %v", nodes, err)
	}

	submit(t, c, "queued")
	claim(t, c, "queued", "c1")
	testkit.Must(t, second(c.store.GiveBack(ctx, c.lead, "queued", "c1", "its worker stops")))
	submit(t, c, "cancelled")
	testkit.Must(t, second(c.store.Finish(ctx, c.lead, "cancelled", End{State: Cancelled})))
	if all, err := c.store.Submissions(ctx); err != nil || len(all) != 2 {
		t.Errorf("submissions %v, %v", all, err)
	}
	mustClose(t, c.store, c.lead, "first")
	testkit.Must(t, second(c.store.Remove(ctx, c.lead, "first")))

	// A waiting standby, a leader that restarts, and one that resigns.
	next := openStore(t, config)
	again := leadAs(t, next, "agg")
	ended(t, c.lead, testkit.Patience)
	standby, errs := make(chan *Leadership, 1), make(chan error, 1)
	waiting := openStore(t, config)
	go func() {
		l, err := waiting.Lead(ctx, "other", time.Minute)
		standby <- l
		errs <- err
	}()
	testkit.Must(t, again.Resign(ctx))
	l := testkit.Receive(t, standby)
	testkit.Must(t, testkit.Receive(t, errs))
	if _, v := ledgerOf(t, waiting); v.Runs["first"].Releases != 2 {
		t.Errorf("%d releases", v.Runs["first"].Releases)
	}
	testkit.Must(t, l.Resign(ctx))
	testkit.Must(t, c.store.client.Sync(ctx))
}

// The users of an etcd cannot exceed their permissions.
func TestUsersAreKeptApart(t *testing.T) {
	t.Parallel()
	users := etcdtest.WithUsers(t, "/conclave/")
	store := openStore(t, Config{Endpoints: []string{users.Endpoint}, TLS: users.TLS(t, etcdtest.Ledger)})
	lead := leadAs(t, store, "agg")
	ctx := testkit.Within(t)
	testkit.Must(t, store.OpenDataset(ctx, lead, testDataset))

	if on, err := store.KnowsUsers(ctx); err != nil || !on {
		t.Errorf("etcd knows users: %v, %v", on, err)
	}
	reader, stranger := users.Client(t, etcdtest.Backup), users.Client(t, etcdtest.Stranger)
	if r, err := reader.Get(ctx, "/conclave/", clientv3.WithPrefix()); err != nil || r.Count < 3 {
		t.Errorf("the reader finds %v, %v", r, err)
	}
	dataset := store.datasetKey("flchain")
	for what, err := range map[string]error{
		"the store's user reads elsewhere": second(store.client.Get(ctx, "/other/key")),
		"it reads all":                     second(store.client.Get(ctx, "", clientv3.WithPrefix())),
		"it writes elsewhere":              second(store.client.Put(ctx, "/conclavf", "x")),
		"it makes users":                   second(store.client.UserAdd(ctx, "me", "x")),
		"the reader writes":                second(reader.Put(ctx, dataset, "x")),
		"the reader deletes":               second(reader.Delete(ctx, dataset)),
		"the reader deposes the leader":    second(reader.Revoke(ctx, lead.lease)),
		"the reader reads elsewhere":       second(reader.Get(ctx, "/other/key")),
		"who is no user reads":             second(stranger.Get(ctx, dataset)),
		"who is no user writes":            second(stranger.Put(ctx, dataset, "x")),
	} {
		if err == nil {
			t.Errorf("%s, and nobody minds", what)
		}
	}
	stream, err := store.client.Snapshot(ctx)
	if err == nil {
		_, err = stream.Read(make([]byte, 1))
	}
	if err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a snapshot without the role root: %v", err)
	}
	if lead.Context().Err() != nil {
		t.Error("the leadership ended")
	}

	s, err := Open(ctx, Config{Endpoints: []string{users.Endpoint}, TLS: users.TLS(t, etcdtest.Stranger)})
	if err == nil {
		s.Close()
	}
	const want = "grant the certificate's user a role for the keys under /conclave/"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a store of who is no user: %v", err)
	}
}
