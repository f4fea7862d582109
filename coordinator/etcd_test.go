package coordinator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/coordinator/etcdtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/etcdserver"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestEmbeddedRestartKeepsAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	mustCharge(t, c.store, c.lead, testCharge("first", 0, "answer"))
	testkit.Must(t, c.store.AdmitNode(ctx, c.lead, testNode()))
	before, _ := ledgerOf(t, c.store)
	if err := c.etcd.Close(); err != nil { // while the store is still open
		t.Fatal(err)
	}
	runEtcd(t, c.dir)

	// The store finds the server again, and the lease survived.
	after, _ := ledgerOf(t, c.store)
	testkit.Same(t, "ledger", before, after)
	release, _, err := c.store.Charge(ctx, c.lead, testCharge("first", 0, "other"))
	if err != nil || string(release) != "answer" {
		t.Errorf("stored round: %q, %v", release, err)
	}
	if _, _, err := c.store.Charge(ctx, c.lead, testCharge("first", 1, "more")); err != nil {
		t.Error(err)
	}
	if nodes, err := c.store.Nodes(ctx, "flchain"); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %v, %v", nodes, err)
	}
}

func TestEmbeddedCloseIsQuick(t *testing.T) {
	t.Parallel()
	c := newCluster(t) // its store watches and keeps a lease alive
	start := time.Now()
	testkit.Must(t, c.etcd.Close())
	if took := time.Since(start); took > time.Minute {
		t.Errorf("close took %v", took)
	}
	if err := c.etcd.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

const childEnv = "CONCLAVE_TEST_COORDINATOR_DIR"

// child is another process that locks the folder, leads, and charges a round per line that it reads.
func child(dir string) {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	e, err := etcdserver.Start(ctx, etcdserver.Config{Dir: dir})
	check(err)
	s, err := Open(ctx, Config{Endpoints: e.Endpoints()})
	check(err)
	l, err := s.Lead(ctx, "agg", time.Minute)
	check(err)
	check(s.OpenDataset(ctx, l, testDataset))
	_, err = s.OpenRun(ctx, l, testRun("first"))
	check(err)
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for round := uint64(0); lines.Scan(); round++ {
		_, entry, err := s.Charge(ctx, l, testCharge("first", round, lines.Text()))
		check(err)
		fmt.Println(entry.Hash)
	}
}

func TestAnotherProcess(t *testing.T) { // not beside others: until its child runs it has their folders' locks, too
	dir := t.TempDir()
	cmd := exec.CommandContext(testkit.Within(t), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	stdin, err := cmd.StdinPipe()
	testkit.Must(t, err)
	stdout, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	testkit.Must(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the other process ended: %v\n%s", lines.Err(), stderr.String())
		}
		return lines.Text()
	}
	if line := next(); line != "ready" {
		t.Fatal(line)
	}

	start := time.Now()
	if e, err := etcdserver.Start(testkit.Within(t), etcdserver.Config{Dir: dir}); !errors.Is(err,
		etcdserver.ErrInUse) || !strings.Contains(err.Error(), dir) {
		if err == nil {
			e.Close()
		}
		t.Errorf("a folder in use: %v", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("the refusal took %v", took)
	}

	var hash string
	for round := range 5 { // the refused start must not have damaged it
		testkit.Must(t, second(fmt.Fprintf(stdin, "answer %d\n", round)))
		hash = next()
	}
	testkit.Must(t, cmd.Process.Kill())
	io.Copy(io.Discard, stdout)
	cmd.Wait()
	if stderr.Len() > 0 {
		t.Errorf("etcd is not quiet:\n%s", stderr.String())
	}

	// Everything acknowledged before kill -9 is there, and leadership of the same name is free at once.
	s := openStore(t, Config{Endpoints: runEtcd(t, dir).Endpoints()})
	l := leadAs(t, s, "agg") // expires before the dead process's lease does
	if err := s.OpenDataset(testkit.Within(t), l, testDataset); err != nil {
		t.Error(err)
	}
	if _, v := ledgerOf(t, s); v.Head != hash || v.Runs["first"].Releases != 5 {
		t.Errorf("head %s, %d releases; want %s, 5", v.Head, v.Runs["first"].Releases, hash)
	}
}

func TestExternalEtcd(t *testing.T) {
	t.Parallel()
	dir, foreign := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, foreign} {
		testkit.Must(t, authority.Create(d))
		testkit.Must(t, authority.Issue(d, certs.RoleAggregator, "agg", []string{"127.0.0.1"}, time.Hour))
	}
	files := certs.IssuedFiles(dir, certs.RoleAggregator, "agg")
	endpoint := etcdtest.Run(t, files)

	tlsConfig, err := tlsconfig.Client(files, "127.0.0.1")
	testkit.Must(t, err)
	ctx := testkit.Within(t)
	// Two clusters share the etcd.
	for _, prefix := range []string{"", "/other"} {
		s := openStore(t, Config{Endpoints: []string{endpoint}, TLS: tlsConfig, Prefix: prefix})
		if on, err := s.KnowsUsers(ctx); err != nil || on {
			t.Errorf("etcd knows users: %v, %v", on, err)
		}
		l := leadAs(t, s, "agg")
		testkit.Must(t, s.OpenDataset(ctx, l, testDataset))
		if existing, err := s.OpenRun(ctx, l, testRun("first")); err != nil || existing {
			t.Fatalf("existing %v, %v", existing, err)
		}
		for range 2 {
			release, entry, err := s.Charge(ctx, l, testCharge("first", 0, "answer"))
			if err != nil || string(release) != "answer" || entry.Seq != 3 {
				t.Errorf("%q, %+v, %v", release, entry, err)
			}
		}
		ledgerOf(t, s)
		if err := l.Resign(ctx); err != nil {
			t.Error(err)
		}
	}

	stranger, err := tlsconfig.Client(certs.IssuedFiles(foreign, certs.RoleAggregator, "agg"), "127.0.0.1")
	testkit.Must(t, err)
	s, err := Open(ctx, Config{Endpoints: []string{endpoint}, TLS: stranger, DialTimeout: time.Second})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "another authority") {
		t.Errorf("a foreign certificate: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	// A port without a listener.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	closed := "http://" + l.Addr().String()
	l.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and stays silent
	testkit.Must(t, err)
	defer silent.Close()
	for _, endpoint := range []string{closed, "http://" + silent.Addr().String(), "unix:///nowhere/etcd.sock"} {
		start := time.Now()
		s, err := Open(testkit.Within(t), Config{Endpoints: []string{endpoint}, DialTimeout: 300 * time.Millisecond})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("%s: %v", endpoint, err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: took %v", endpoint, took)
		}
	}
	if _, err := Open(testkit.Within(t), Config{}); err == nil {
		t.Error("no endpoints were accepted")
	}
}

// etcd stops in the middle of a run and returns.
func TestEtcdAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	etcd := runEtcd(t, dir)
	lasting := openStore(t, Config{Endpoints: etcd.Endpoints()})
	l := leadAs(t, lasting, "agg")
	ctx := testkit.Within(t)
	testkit.Must(t, lasting.OpenDataset(ctx, l, testDataset))
	mustOpen(t, lasting, l, testRun("first"))
	s := openStore(t, Config{Endpoints: etcd.Endpoints()})
	s.config.RequestTimeout = 600 * time.Millisecond
	testkit.Must(t, etcd.Close())
	start := time.Now()
	_, _, err := s.Charge(ctx, l, testCharge("first", 0, "answer"))
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), etcd.Endpoints()[0]) {
		t.Errorf("charge: %v", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("the error took %v", took)
	}
	if _, _, _, err := s.Release(ctx, "first", 0); !errors.Is(err, ErrUnavailable) {
		t.Errorf("release: %v", err)
	}
	if _, err := s.Ledger(ctx, "flchain"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ledger: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := s.Charge(canceled, l, testCharge("first", 0, "answer")); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}

	back := openStore(t, Config{Endpoints: runEtcd(t, dir).Endpoints()})
	if _, v := ledgerOf(t, back); v.Runs["first"].Releases != 0 {
		t.Errorf("%d releases", v.Runs["first"].Releases)
	}
	s.config.RequestTimeout = testkit.Patience
	if _, _, err := s.Charge(ctx, l, testCharge("first", 0, "answer")); err != nil {
		t.Errorf("after etcd came back: %v", err)
	}
}

func TestAllIsWellWithoutALine(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.DebugLevel)
	dir := t.TempDir()
	for start, while := range []time.Duration{0, 300 * time.Millisecond, 0} {
		e, err := etcdserver.Start(context.Background(), etcdserver.Config{Dir: dir, Logger: zap.New(core)})
		testkit.Must(t, err)
		s := openStore(t, Config{Endpoints: e.Endpoints()})
		l := leadAs(t, s, "agg")
		testkit.Must(t, s.OpenDataset(testkit.Within(t), l, testDataset))
		time.Sleep(while) // etcd's version is known meanwhile
		testkit.Must(t, e.Close())
		for _, line := range logged.TakeAll() {
			t.Errorf("start %d: etcd says %q: %v", start, line.Message, line.ContextMap())
		}
	}
}
