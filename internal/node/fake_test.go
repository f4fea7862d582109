package node

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// fakeAggregator is the other end of the stream, played by the test.
type fakeAggregator struct {
	conclavev1.UnimplementedTeacherServiceServer
	t      testing.TB
	folder string // of the certificates
	addr   string
	joined chan *join
	// refuse, when set, is the answer to every node; ledger is what those that are welcome
	// are told of it.
	mu     sync.Mutex
	refuse error
	ledger []ledger.Entry
}

// join is one stream of a node.
type join struct {
	t      testing.TB
	hello  *conclavev1.Hello
	stream conclavev1.TeacherService_WorkServer
	leave  chan error // ends the handler
	gone   <-chan struct{}
}

func newFakeAggregator(t testing.TB) *fakeAggregator {
	t.Helper()
	f := &fakeAggregator{t: t, folder: t.TempDir(), joined: make(chan *join, 16)}
	testkit.Must(t, authority.Create(f.folder))
	testkit.Must(t, authority.Issue(f.folder, certs.RoleAggregator, "a", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(t, authority.Issue(f.folder, certs.RoleNode, "north", nil, time.Hour))
	f.addr = f.serve("127.0.0.1:0")
	return f
}

// serve starts a server and returns its address.
func (f *fakeAggregator) serve(address string) string {
	f.t.Helper()
	tlsConfig, err := tlsconfig.Server(certs.IssuedFiles(f.folder, certs.RoleAggregator, "a"))
	testkit.Must(f.t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(tlsConfig)))
	conclavev1.RegisterTeacherServiceServer(server, f)
	listener, err := net.Listen("tcp", address)
	testkit.Must(f.t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	f.t.Cleanup(func() {
		server.Stop()
		// A test that ends at once may stop the server before it serves.
		if err := testkit.Receive(f.t, served); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			f.t.Errorf("the server ended with %v", err)
		}
	})
	return listener.Addr().String()
}

func (f *fakeAggregator) setRefusal(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *fakeAggregator) setLedger(entries []ledger.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ledger = entries
}

func (f *fakeAggregator) Work(stream conclavev1.TeacherService_WorkServer) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	f.mu.Lock()
	refuse := f.refuse
	f.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	j := &join{t: f.t, hello: m.GetHello(), stream: stream, leave: make(chan error, 1), gone: stream.Context().Done()}
	f.joined <- j
	select {
	case err := <-j.leave:
		return err
	case <-j.gone:
		return stream.Context().Err()
	}
}

// next waits for a node to come.
func (f *fakeAggregator) next() *join {
	f.t.Helper()
	select {
	case j := <-f.joined:
		f.mu.Lock()
		welcome := &conclavev1.Welcome{Aggregator: "a", Ledger: endOf(f.ledger)}
		if seen := int(j.hello.GetLedger().GetSeq()); seen < len(f.ledger) {
			j.entries(f.ledger[seen:])
		}
		f.mu.Unlock()
		j.send(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Welcome{Welcome: welcome}})
		return j
	case <-time.After(testkit.Patience):
		f.t.Fatal("no node came")
		return nil
	}
}

func (j *join) send(m *conclavev1.WorkResponse) {
	j.t.Helper()
	testkit.Must(j.t, j.stream.Send(m))
}

// entries tells the node of entries of the ledger.
func (j *join) entries(entries []ledger.Entry) {
	j.t.Helper()
	m := &conclavev1.LedgerEntries{}
	for _, e := range entries {
		line, err := e.Canonical()
		testkit.Must(j.t, err)
		m.Lines = append(m.Lines, line)
	}
	j.send(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Entries{Entries: m}})
}

func (j *join) withdraw(w *conclavev1.Withdraw) {
	j.t.Helper()
	j.send(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Withdraw{Withdraw: w}})
}

// ask sends a round in small parts.
func (j *join) ask(r *conclavev1.Round) {
	j.t.Helper()
	for _, p := range partsOf(j.t, r, 300) {
		j.send(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Part{Part: p}})
	}
}

func (j *join) reply() *conclavev1.WorkRequest {
	j.t.Helper()
	m, err := j.stream.Recv()
	testkit.Must(j.t, err)
	return m
}

func (j *join) votes(r *conclavev1.Round) []byte {
	j.t.Helper()
	j.ask(r)
	m := j.reply()
	if m.GetVotes() == nil || m.GetVotes().Round != r.Number {
		j.t.Fatalf("round %d was answered with %v", r.Number, m)
	}
	return m.GetVotes().Packed
}

// config is that of a node of this aggregator.
func (f *fakeAggregator) config(teachers int) Config {
	c := smallConfig(f.t, teachers)
	c.Aggregator, c.TLS = f.addr, certs.IssuedFiles(f.folder, certs.RoleNode, "north")
	c.Reconnect = 200 * time.Millisecond
	return c
}

// run runs a node and returns what stops it: the node's log and Run's error.
func run(t testing.TB, n *Node, options ...zap.Option) (stop func() error, log *observer.ObservedLogs) {
	t.Helper()
	core, log := observer.New(zap.DebugLevel)
	n.log = zap.New(core, options...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(testkit.Patience):
			t.Fatal("Run did not end with its context")
			return nil
		}
	})
	t.Cleanup(func() { stop() })
	return stop, log
}
