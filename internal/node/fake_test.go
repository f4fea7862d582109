package node

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig/tlsconfigtest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// fakeAggregator is a scripted aggregator.
type fakeAggregator struct {
	rpc.UnimplementedTeacherServiceServer
	t      testing.TB
	folder string // folder of the certificates
	addr   string
	joined chan *join
	// refuse, if set, is the answer to every node; ledger is sent to welcome nodes.
	mu     sync.Mutex
	refuse error
	ledger []ledger.Entry
}

// join is one stream of a node.
type join struct {
	t      testing.TB
	hello  *conclavev1.Hello
	stream rpc.TeacherService_WorkServer
	leave  chan error // ends the handler
	gone   <-chan struct{}
}

func newFakeAggregator(t testing.TB) *fakeAggregator {
	t.Helper()
	f := &fakeAggregator{t: t, folder: certstest.New(t), joined: make(chan *join, 16)}
	f.addr = f.serve("127.0.0.1:0")
	return f
}

// serve starts a server and returns its address.
func (f *fakeAggregator) serve(address string) string {
	f.t.Helper()
	at, _ := tlsconfigtest.Serve(f.t, certs.IssuedFiles(f.folder, certs.RoleAggregator, "agg"), address,
		func(server *grpc.Server) { rpc.RegisterTeacherServiceServer(server, f) })
	return at
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

func (f *fakeAggregator) Work(stream rpc.TeacherService_WorkServer) error {
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

// next waits for a node to join.
func (f *fakeAggregator) next() *join {
	f.t.Helper()
	j := testkit.Receive(f.t, f.joined)
	f.mu.Lock()
	end := endOf(f.ledger)
	if seen := int(j.hello.GetLedger().GetSeq()); seen < len(f.ledger) {
		j.entries(f.ledger[seen:])
	}
	f.mu.Unlock()
	j.send(welcome(end))
	return j
}

// welcome is a welcome with the head of the ledger.
func welcome(end *conclavev1.LedgerHead) *conclavev1.WorkResponse {
	return &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Welcome{
		Welcome: &conclavev1.Welcome{Aggregator: "agg", Ledger: end},
	}}
}

func (j *join) send(m *conclavev1.WorkResponse) {
	j.t.Helper()
	testkit.Must(j.t, j.stream.Send(m))
}

// entries sends ledger entries to the node.
func (j *join) entries(entries []ledger.Entry) {
	j.t.Helper()
	j.send(linesOf(entries))
}

func linesOf(entries []ledger.Entry) *conclavev1.WorkResponse {
	m := &conclavev1.LedgerEntries{}
	for _, e := range entries {
		m.Lines = append(m.Lines, testkit.Value(e.Canonical()))
	}
	return &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Entries{Entries: m}}
}

func (j *join) withdraw(w *conclavev1.Withdraw) {
	j.t.Helper()
	j.send(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Withdraw{Withdraw: w}})
}

// ask sends a round in small parts.
func (j *join) ask(r *conclavev1.Round) {
	j.t.Helper()
	j.askUnder(r, nil, 0)
}

// askUnder sends a round of a run with terms.
func (j *join) askUnder(r *conclavev1.Round, terms *conclavev1.RoundTerms, attempt uint64) {
	j.t.Helper()
	for _, m := range messagesOf(j.t, r, terms, attempt) {
		j.send(m)
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

// config is the configuration of a node of this aggregator.
func (f *fakeAggregator) config(teachers int) Config {
	c := smallConfig(f.t, teachers)
	c.Aggregator, c.TLS = f.addr, certs.IssuedFiles(f.folder, certs.RoleNode, "north")
	c.Reconnect = 200 * time.Millisecond
	c.Drain = 100 * time.Millisecond // the fake does not end a stream on its own
	return c
}

// run runs a node. The returned function stops it and returns the node's log and Run's error.
func run(t testing.TB, n *Node, options ...zap.Option) (stop func() error, log *observer.ObservedLogs) {
	t.Helper()
	core, log := observer.New(zap.DebugLevel)
	n.log = zap.New(core, options...)
	cancel, ended := begin(t, n)
	stop = sync.OnceValue(func() error {
		cancel()
		return testkit.Receive(t, ended)
	})
	t.Cleanup(func() { stop() })
	return stop, log
}

// begin runs a node until it is cancelled, or ends on its own with Run's error.
func begin(t testing.TB, n *Node) (cancel func(), ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	end := make(chan error, 1)
	go func() { end <- n.Run(ctx) }()
	return cancel, end
}

// held makes a node's teachers wait, once they are reached, until open is called.
func held(n *Node) (reached <-chan struct{}, open func()) {
	at, gate := make(chan struct{}), make(chan struct{})
	n.site.Sample = func(gnmax.Rate) ([]int, error) {
		close(at)
		<-gate
		return []int{0}, nil
	}
	return at, func() { close(gate) }
}
