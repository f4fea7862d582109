package aggregator

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// handshakeWith dials with a certificate whatever the server's is, and waits
// for the server's verdict, which TLS 1.3 sends after the handshake.
func handshakeWith(t *testing.T, address string, files certs.Files) error {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	testkit.Must(t, err)
	conn, err := tls.Dial("tcp", address, &tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, NextProtos: []string{"h2"},
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	testkit.Must(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
	// A server that accepts sends its HTTP/2 settings first.
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestPlainAndOldTLSAreRefused(t *testing.T) {
	c := newCluster(t, Options{})
	if err := handshakeWith(t, c.server.Addr().String(),
		certs.IssuedFiles(c.certs, certs.RoleStudent, "student")); err != nil {
		t.Fatalf("a good certificate is refused: %v", err)
	}
	address := c.server.Addr().String()
	if _, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"}}); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err == nil {
		defer conn.Close()
		testkit.Must(t, conn.SetDeadline(time.Now().Add(testkit.Patience)))
		if _, err = conn.Read(make([]byte, 1)); err == nil {
			t.Error("a client without a certificate was accepted")
		}
	}
}

// A server that dies between charge and answer comes back with the same
// release and has charged it once.
func TestCrashBetweenChargeAndAnswer(t *testing.T) {
	t.Parallel()
	charged, die := make(chan struct{}), make(chan struct{})
	c := newCluster(t, Options{Hooks: Hooks{AfterCharge: func(string, uint64) { close(charged); <-die }}})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	ctx, cancel := context.WithCancel(testkit.Within(t))
	asked := make(chan error, 1)
	go func() {
		_, err := student.ask(ctx, roundtest.VoteRound(spec.Name, 0, 4), nil)
		asked <- err
	}()
	testkit.Receive(t, charged)
	stored, _, found, err := c.server.store.Release(testkit.Within(t), spec.Name, 0)
	if err != nil || !found {
		t.Fatalf("the charge is not durable: %v", err)
	}
	// The node learns of the entry while the student has no answer yet.
	for !bytes.Contains(testkit.Receive(t, node.entries), []byte(`"type":"release"`)) {
	}
	if len(asked) != 0 {
		t.Error("the student was answered first")
	}
	cancel() // the student never hears the answer
	roundtest.WantStatus(t, testkit.Receive(t, asked), codes.Canceled)
	close(die)
	testkit.Must(t, c.stop())

	c.start(Options{})
	student = c.student(t)
	_, response := student.open(t, d, nil)
	if response.GetRounds() != 1 {
		t.Fatalf("the run came back with %d rounds", response.GetRounds())
	}
	// No node is connected: the answer is the stored one.
	r := student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 4))
	r2 := proto.Clone(r).(*conclavev1.Release)
	r2.EpsilonSpent, r2.LedgerSeq, r2.LedgerHash = 0, 0, ""
	raw, err := stable(r2)
	testkit.Must(t, err)
	if string(raw) != string(stored) {
		t.Error("another release after the restart")
	}
	if entries := student.ledger(t, spec.Name); len(entries) != 1 || entries[0].Hash != r.GetLedgerHash() {
		t.Errorf("the ledger has %v", entries)
	}
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 1, 4))
}

// A server that dies before the charge has charged nothing; the round is asked
// anew.
func TestStopBeforeCharge(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	node := c.node(t, hello(d, "north", "a", 8), roundtest.Silent)
	asked := make(chan error, 1)
	go func() {
		_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 4), nil)
		asked <- err
	}()
	testkit.Receive(t, node.rounds)
	testkit.Must(t, c.stop())
	roundtest.WantStatus(t, testkit.Receive(t, asked), codes.Unavailable, "stopping")
	testkit.Receive(t, node.ended)
	roundtest.WantStatus(t, node.err, codes.Unavailable, "stopping")

	c.start(Options{})
	student = c.student(t)
	if entries := student.ledger(t, spec.Name); len(entries) != 0 {
		t.Errorf("charged %v", entries)
	}
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	student.mustAsk(t, roundtest.VoteRound(spec.Name, 0, 4))
}

// When another aggregator takes over, everything in flight ends and nothing is
// released.
func TestLostLeadershipEndsEverything(t *testing.T) {
	reached, proceed := make(chan struct{}), make(chan struct{})
	c := newCluster(t, Options{Hooks: Hooks{BeforeCharge: func(string, uint64) { close(reached); <-proceed }}})
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	c.node(t, hello(d, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
	asked := make(chan error, 1)
	go func() {
		_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 4), nil)
		asked <- err
	}()
	testkit.Receive(t, reached)
	other, err := coordinator.Open(testkit.Within(t), coordinator.Config{Endpoints: c.server.embedded.Endpoints()})
	testkit.Must(t, err)
	defer other.Close()
	lead, err := other.Lead(testkit.Within(t), c.config.Name, 10*time.Second)
	testkit.Must(t, err)
	close(proceed)
	roundtest.WantStatus(t, testkit.Receive(t, asked), codes.Unavailable, "leader")
	if _, _, found, err := other.Release(testkit.Within(t), spec.Name, 0); found || err != nil {
		t.Errorf("released without leadership (%v)", err)
	}
	testkit.Must(t, lead.Resign(testkit.Within(t)))
	if err := c.ended(); !errors.Is(err, ErrLeadershipLost) {
		t.Errorf("Serve returned %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	testkit.Must(t, c.stop())
	for name, change := range map[string]func(*Config){
		"no datasets":       func(c *Config) { c.Datasets = nil },
		"missing key":       func(c *Config) { c.TLS.Key += ".gone" },
		"a node's key pair": func(k *Config) { k.TLS = certs.IssuedFiles(c.certs, certs.RoleNode, "north") },
		"another budget":    func(c *Config) { c.Datasets[0].Budget.Epsilon = 7 },
		"missing schema": func(c *Config) {
			c.Datasets[0].SchemaSHA256, c.Datasets[0].Schema = "",
				"/nowhere/schema.yaml"
		},
		"address not ours": func(c *Config) { c.Listen = "192.0.2.1:1" },
		"etcd that is away": func(c *Config) {
			c.Etcd.Embedded, c.Etcd.Endpoints = false,
				[]string{"http://127.0.0.1:1"}
		},
		"unreadable etcd CA": func(c *Config) {
			c.Etcd.Embedded, c.Etcd.Endpoints, c.Etcd.CA = false, []string{"https://127.0.0.1:1"}, "/nowhere"
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := c.config
			config.Datasets = append([]DatasetConfig(nil), c.config.Datasets...)
			change(&config)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			s, err := New(ctx, config, Options{})
			if err == nil {
				s.Close()
				t.Fatal("started")
			}
			t.Log(err)
		})
	}
}
