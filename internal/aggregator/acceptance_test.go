package aggregator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/etcdserver"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// pair is a leader and a standby on one etcd. Each has its own certificates and revocation list.
type pair struct {
	*cluster
	auditLog string // the leader's audit log
	list     string // the leader's revocation list
	second   Config
	led      chan *Server // the standby, once it leads

	secondLog *observer.ObservedLogs
}

func newPair(t *testing.T, grace time.Duration) *pair {
	t.Helper()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, etcd.Close()) })
	p := &pair{list: filepath.Join(t.TempDir(), "revoked.crl"), led: make(chan *Server, 1)}
	path, change := observed(t)
	p.auditLog = path
	p.cluster = newCluster(t, Options{grace: grace, resign: testkit.Patience}, change, func(c *Config) {
		c.Etcd = EtcdConfig{Endpoints: etcd.Endpoints(), LeaseTTL: 2 * testkit.Patience}
		c.Datasets = c.Datasets[:1]
		insisting(c)
		testkit.Must(t,
			authority.Issue(filepath.Dir(c.TLS.CA), certs.RoleAggregator, "second", []string{"127.0.0.1"}, time.Hour))
		replace(t, p.list, c.TLS.Revoked)
		p.second = *c
		c.TLS.Revoked = p.list
	})
	p.second.Name, p.second.TLS = "second", certs.IssuedFiles(p.certs, certs.RoleAggregator, "second")
	p.second.TLS.Revoked = certs.RevokedFile(p.certs)
	p.second.AuditLog, p.second.HTTP.Listen = "", testkit.FreeAddress(t, "127.0.0.1")
	return p
}

// replace atomically overwrites a file with a copy of another.
func replace(t *testing.T, path, from string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(path+".new", raw, 0o600))
	testkit.Must(t, os.Rename(path+".new", path))
}

// reissue replaces an aggregator's certificate.
func (p *pair) reissue(t *testing.T, name string, validity time.Duration) {
	t.Helper()
	f := certs.IssuedFiles(p.certs, certs.RoleAggregator, name)
	testkit.Must(t, os.Remove(f.Cert))
	testkit.Must(t, os.Remove(f.Key))
	testkit.Must(t, authority.Issue(p.certs, certs.RoleAggregator, name, []string{"127.0.0.1"}, validity))
}

// standBy starts the second aggregator and waits until it is a standby.
func (p *pair) standBy(t *testing.T) {
	t.Helper()
	core, log := observer.New(zap.InfoLevel)
	p.secondLog = log
	ctx, cancel := context.WithTimeout(context.Background(), 3*testkit.Patience)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s, err := New(ctx, p.second, Options{Logger: zap.New(core)})
		if err != nil {
			t.Error(err)
			return
		}
		p.led <- s
	}()
	t.Cleanup(func() { cancel(); testkit.Receive(t, ended) })
	p.says(t, http.StatusOK, "standby of agg")
}

// says waits until the second aggregator's probe answers with a status and words.
func (p *pair) says(t *testing.T, status int, words ...string) {
	t.Helper()
	awaitReady(t, p.second.HTTP.Listen, status, words...)
}

func awaitReady(t *testing.T, address string, status int, words ...string) {
	t.Helper()
	testkit.Eventually(t, "/readyz to say "+strings.Join(words, ", "), func() bool {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		conn.Close()
		got, text := httpAt(t, address, "GET", "/readyz", "")
		for _, word := range words {
			if !strings.Contains(text, word) {
				return false
			}
		}
		return got == status
	})
}

// serves waits until the second aggregator leads, and asks it a round.
func (p *pair) serves(t *testing.T) {
	t.Helper()
	var second *Server
	select {
	case second = <-p.led:
	case <-time.After(testkit.Patience):
		t.Fatal("the standby did not take over")
	}
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { served <- second.Serve(ctx) }()
	p.server, p.stop = second, func() error {
		p.stop = nil
		cancel()
		return errors.Join(testkit.Receive(p.t, served), second.Close())
	}
	d := p.config.Datasets[0].Name
	student := p.student(t)
	spec, _ := student.open(t, d, nil)
	p.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	if r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2)); r.GetTeachers() != 8 {
		t.Errorf("%d teachers", r.GetTeachers())
	}
}

// A leader that can accept no peer logs it at once, and its standby takes over.
func TestALeaderThatCanLetNobodyInGivesTheLeadAway(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*testing.T, *pair)
		is    error
		says  string
	}{
		{"revoked", func(t *testing.T, p *pair) {
			p.revoke(t, certs.RoleAggregator, "agg")
			replace(t, p.list, certs.RevokedFile(p.certs))
		}, certs.ErrRevoked, "own certificate"},
		{"expired", func(t *testing.T, p *pair) { p.reissue(t, "agg", 2*time.Second) }, certs.ErrExpired,
			"it expired on"},
		{"no list", func(t *testing.T, p *pair) { testkit.Must(t, os.Remove(p.list)) }, certs.ErrList, "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const grace = 10 * time.Second
			p := newPair(t, grace)
			p.standBy(t)
			address := p.server.MonitorAddr().String()
			if status, text := p.http(t, "/readyz"); status != http.StatusOK || text != "leader\n" {
				t.Fatalf("/readyz: %d %s", status, text)
			}
			began := time.Now()
			tc.spoil(t, p)
			awaitReady(t, address, http.StatusServiceUnavailable, "no new peers are accepted", tc.says)
			if m := scrape(t, address); m["conclave_tls_accepting_state"] != 0 || len(m) == 0 {
				t.Error("the metrics say that somebody is let in")
			}
			first := p.server
			testkit.Eventually(t, "the leader to stop", func() bool { return first.phase.Load() == stopping })
			if took := time.Since(began); took < grace {
				t.Errorf("it gave the lead away after %v", took)
			}
			err := p.stop()
			if !errors.Is(err, ErrLeadershipLost) || !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it ended with %v", err)
			}
			lines := auditEntries(t, p.auditLog)
			for _, event := range []string{auditlog.NotAccepting, auditlog.GaveAway} {
				if e := of(lines, event); len(e) != 1 || !strings.Contains(e[0].Reason, tc.says) {
					t.Errorf("lines of %s: %+v", event, e)
				}
			}
			p.serves(t)
			t.Logf("the standby led and had answered after %v, of which %v are grace", time.Since(began), grace)
		})
	}
}

// A standby is ready for probes, and leads as soon as the leader has stopped, long before the leader's lease would
// expire.
func TestAStandbyIsReadyAndTakesOverAtOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	p.standBy(t)
	if m := scrape(t, p.second.HTTP.Listen); m["conclave_leader_state"] != 0 || len(m) == 0 {
		t.Error("the standby says that it leads")
	}
	testkit.Must(t, p.stop())
	p.serves(t)
	p.says(t, http.StatusOK, "leader")
	if m := scrape(t, p.second.HTTP.Listen); m["conclave_leader_state"] != 1 {
		t.Error("it does not say that it leads")
	}
}

// Replacing files within the grace period does not move leadership, however often it happens.
func TestAFileThatIsReplacedMovesNoLead(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second // no single replacement takes as long
	p := newPair(t, grace)
	var spoiled time.Duration // how long the file was away, all times together
	for i := 1; spoiled < grace+2*lookEvery; i++ {
		began := time.Now()
		testkit.Must(t, os.Remove(p.list))
		testkit.Eventually(t, "the trouble to be noted", func() bool {
			return len(of(auditEntries(t, p.auditLog), auditlog.NotAccepting)) == i
		})
		replace(t, p.list, certs.RevokedFile(p.certs))
		testkit.Eventually(t, "its end to be noted", func() bool {
			return len(of(auditEntries(t, p.auditLog), auditlog.Accepting)) == i
		})
		spoiled += time.Since(began)
	}
	if status, text := p.http(t, "/readyz"); status != http.StatusOK || text != "leader\n" {
		t.Errorf("/readyz: %d %s", status, text)
	}
}

// An aggregator that can accept no peer does not lead, even if no other does. It leads once it can accept peers.
func TestNobodyStandsForTheLeadWhoCouldLetNobodyIn(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	p.standBy(t)
	p.revoke(t, certs.RoleAggregator, "second")
	p.says(t, http.StatusServiceUnavailable, "no new peers are accepted", "own certificate", "revoked on")
	testkit.Eventually(t, "it to withdraw", func() bool {
		return p.secondLog.FilterMessageSnippet("withdrew from the campaign").Len() > 0
	})
	testkit.Must(t, p.stop())

	// A third aggregator starts with such a certificate.
	third := p.second
	third.Name, third.HTTP.Listen = "third", ""
	for within := 2 * time.Second; ; within *= 2 { // it has to reach etcd first
		ctx, cancel := context.WithTimeout(context.Background(), within)
		s, err := New(ctx, third, Options{})
		cancel()
		if errors.Is(err, certs.ErrRevoked) && errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if s != nil || within > time.Minute {
			t.Fatalf("%v, %v", s, err)
		}
	}
	select {
	case s := <-p.led:
		t.Fatalf("it leads with a revoked certificate: %v", s.Close())
	default:
	}
	if n := p.secondLog.FilterMessageSnippet("became leader with unusable").Len(); n != 0 {
		t.Error("it led for a moment")
	}
	if n := p.secondLog.FilterMessageSnippet("does not campaign for leadership").Len(); n != 1 {
		t.Errorf("%d lines say that it does not stand", n)
	}
	p.reissue(t, "second", time.Hour)
	p.serves(t)
	p.says(t, http.StatusOK, "leader")
}

// With an embedded etcd there is no standby, so the aggregator continues to serve connected peers.
func TestAnAggregatorWithoutStandbyKeepsTheLead(t *testing.T) {
	t.Parallel()
	path, change := observed(t)
	c := newCluster(t, Options{grace: time.Second}, change, insisting)
	student, spec, _ := c.begin(t, nil, roundtest.Votes(8, roundtest.Alternating))
	c.revoke(t, certs.RoleAggregator, "agg")
	awaitReady(t, c.server.MonitorAddr().String(), http.StatusServiceUnavailable, "own certificate")
	c.turnedAway(t, certs.IssuedFiles(c.certs, certs.RoleNode, "south"))
	testkit.Eventually(t, "it to be noted", func() bool {
		return len(of(auditEntries(t, path), auditlog.NotAccepting)) == 1
	})
	time.Sleep(time.Second + 2*lookEvery)
	if r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 2)); r.GetTeachers() != 8 {
		t.Errorf("%d teachers", r.GetTeachers())
	}
	if e := of(auditEntries(t, path), auditlog.GaveAway); len(e) != 0 {
		t.Errorf("it gave the lead away: %+v", e)
	}
}
