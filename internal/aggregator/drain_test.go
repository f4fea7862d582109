package aggregator

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/etcdserver"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// stopping stops a cluster in the background.
func (c *cluster) stopping() <-chan error {
	stop, ended := c.stop, make(chan error, 1)
	c.stop = nil
	go func() { ended <- stop() }()
	return ended
}

// A stopping server answers a round that nodes work on. Meanwhile it is not ready and begins no other round.
func TestARoundInFlightIsAnsweredBeforeTheEnd(t *testing.T) {
	t.Parallel()
	path, change := observed(t)
	c := newCluster(t, Options{}, change, func(c *Config) { c.Drain = 2 * testkit.Patience })
	d := c.dataset()
	student := c.student(t)
	spec, _ := student.open(t, d, nil)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	answer := roundtest.Votes(8, roundtest.Alternating)
	node := c.node(t, hello(d, "north", "a", 8), func(r *conclavev1.Round) []*conclavev1.WorkRequest {
		<-gate
		return answer(r)
	})
	watch, err := healthpb.NewHealthClient(c.dial(t, certs.IssuedFiles(c.certs, certs.RoleStudent, "student"))).
		Watch(testkit.Within(t),
			&healthpb.HealthCheckRequest{Service: rpc.StudentService_ServiceDesc.ServiceName})
	testkit.Must(t, err)
	health := func() healthpb.HealthCheckResponse_ServingStatus {
		m, err := watch.Recv()
		testkit.Must(t, err)
		return m.GetStatus()
	}
	if h := health(); h != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health is %v", h)
	}
	first := inBackground(t, student, roundtest.VoteRound(spec.Name, 0, 4))
	testkit.Receive(t, node.rounds)
	ended := c.stopping()
	if h := health(); h != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health is %v once it stops", h)
	}
	if status, text := c.http(t, "/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "stopping") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	if status, _ := c.http(t, "/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	if m := scrape(t, c.server.MonitorAddr().String()); m["conclave_leader_state"] != 0 {
		t.Error("it still says that it leads")
	}
	other, _ := student.open(t, c.dataset(), nil)
	student.refused(t, roundtest.VoteRound(other.Name, 0, 4), codes.Unavailable, "stopping")
	open()
	testkit.Must(t, testkit.Receive(t, first))
	testkit.Must(t, testkit.Receive(t, ended)) // with nothing left to wait for, long before Drain
	if e := of(auditEntries(t, path), auditlog.Released); len(e) != 1 {
		t.Errorf("releases in the audit log: %+v", e)
	}
}

// A round that nodes never finish, or one that waits for nodes, delays the stop only for a bounded time.
func TestTheDrainIsBounded(t *testing.T) {
	t.Parallel()
	const drain = 700 * time.Millisecond
	c := newCluster(t, Options{}, func(c *Config) { c.Drain = drain })
	student, spec, node := c.begin(t, nil, roundtest.Silent)
	d := spec.Dataset
	first := inBackground(t, student, roundtest.VoteRound(spec.Name, 0, 4))
	testkit.Receive(t, node.rounds)
	began := time.Now()
	ended := c.stopping()
	roundtest.WantStatus(t, testkit.Receive(t, first), codes.Unavailable, "stopping")
	if took := time.Since(began); took < drain {
		t.Errorf("the round was given up after %v", took)
	}
	testkit.Receive(t, node.ended)
	roundtest.WantStatus(t, node.err, codes.Unavailable, "stopping")
	testkit.Must(t, testkit.Receive(t, ended))

	c.config.Drain = 2 * testkit.Patience
	c.start(Options{})
	student = c.student(t)
	student.open(t, d, nil)
	progress := make(chan *conclavev1.Progress, 1000)
	outcome := make(chan error, 1)
	go func() {
		_, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 4), func(p *conclavev1.Progress) {
			progress <- p
		})
		outcome <- err
	}()
	for !(testkit.Receive(t, progress)).GetWaitingForQuorum() {
	}
	testkit.Must(t, testkit.Receive(t, c.stopping()))
	roundtest.WantStatus(t, testkit.Receive(t, outcome), codes.Unavailable, "stopping")
}

// Without etcd no server is ready.
func TestNotReadyWithoutEtcd(t *testing.T) {
	t.Parallel()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()})
	testkit.Must(t, err)
	_, change := observed(t)
	c := newCluster(t, Options{}, change, func(c *Config) {
		c.Etcd = EtcdConfig{Endpoints: etcd.Endpoints(), LeaseTTL: 2 * testkit.Patience}
		c.Datasets = c.Datasets[:1]
	})
	if status, text := c.http(t, "/readyz"); status != 200 {
		t.Fatalf("/readyz: %d %s", status, text)
	}
	testkit.Must(t, etcd.Close())
	if status, text := c.http(t, "/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "etcd") {
		t.Errorf("/readyz: %d %s", status, text)
	}
	if status, _ := c.http(t, "/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
	stop := c.stop
	c.stop = nil
	_ = stop() // it cannot resign without etcd
}

// A server whose listener breaks ends with the reason.
func TestAServerWhoseListenerBreaksSaysWhy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, Options{})
	testkit.Must(t, c.server.listener.Close())
	for end := time.Now().Add(testkit.Patience); c.server.life.Draining().Err() == nil; {
		time.Sleep(5 * time.Millisecond)
		if time.Now().After(end) {
			t.Fatal("the server goes on without a listener")
		}
	}
	if err := c.stop(); err == nil || !strings.Contains(err.Error(), "serve on 127.0.0.1:") {
		t.Errorf("error %v", err)
	}
}
