package aggregator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/parts"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/ratio/logistic"
	"github.com/conclave-dp/conclave/internal/reducer"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.WaitTogether()
	goleak.VerifyTestMain(tests{m})
}

// tests wraps the package's tests and closes their shared cluster at the end.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	if sharedCluster != nil {
		if err := sharedCluster.close(); err != nil {
			fmt.Fprintln(os.Stderr, "the shared cluster:", err)
			code = 1
		}
	}
	return code
}

// cluster is an aggregator with real TLS on loopback and a real embedded etcd. It issues the certificates of the
// test's nodes and students.
type cluster struct {
	t      testing.TB
	config Config
	certs  string
	server *Server
	stop   func() error
	ended  func() error // waits for a server that ends on its own

	mu                sync.Mutex
	next, nextPlanned int
	private           map[string][][]int64 // exact sums of releases, by run
}

var sharedCluster *cluster

// shared is one cluster for tests that run one after the other and need only their own datasets.
func shared(t testing.TB) *cluster {
	t.Helper()
	if sharedCluster == nil {
		sharedCluster = openCluster(t, Options{}, roomy)
	}
	return sharedCluster
}

func newCluster(t testing.TB, options Options, changes ...func(*Config)) *cluster {
	t.Helper()
	c := openCluster(t, options, changes...)
	t.Cleanup(func() { testkit.Must(t, c.close()) })
	return c
}

// close ends the server, if it still runs, and removes its files.
func (c *cluster) close() (err error) {
	if c.stop != nil {
		err = c.stop()
	}
	return errors.Join(err, os.RemoveAll(filepath.Dir(c.certs)))
}

func openCluster(t testing.TB, options Options, changes ...func(*Config)) *cluster {
	t.Helper()
	// A short path: the embedded etcd listens on a Unix socket below it.
	dir, err := os.MkdirTemp("", "agg")
	testkit.Must(t, err)
	c := &cluster{t: t, certs: filepath.Join(dir, "certs"), private: map[string][][]int64{}}
	testkit.Must(t, authority.Create(c.certs))
	testkit.Must(t, authority.Issue(c.certs, certs.RoleAggregator, "agg", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(t, authority.Issue(c.certs, certs.RoleStudent, "student", nil, time.Hour))
	for _, site := range []string{"north", "south", "east", "west"} {
		testkit.Must(t, authority.Issue(c.certs, certs.RoleNode, site, nil, time.Hour))
	}
	c.config = DefaultConfig()
	c.config.Name = "agg"
	c.config.Listen = "127.0.0.1:0"
	c.config.TLS = certs.IssuedFiles(c.certs, certs.RoleAggregator, "agg")
	c.config.Drain, c.config.LeastDeadline = 0, 0 // tests of these settings set them
	c.config.Etcd.Embedded = true
	c.config.Etcd.Dir = filepath.Join(dir, "etcd")
	c.config.datasets("d", 10, privacy.Budget{Epsilon: 100, Delta: 1e-5}) // see the method dataset
	c.config.datasets("p", 3, planned)
	for _, change := range changes {
		change(&c.config)
	}
	c.start(options)
	return c
}

// datasets adds numbered datasets with this letter and budget, up to a number.
func (c *Config) datasets(letter string, upTo int, budget privacy.Budget) {
	for i := range upTo {
		name := fmt.Sprint(letter, i)
		if !slices.ContainsFunc(c.Datasets, func(d DatasetConfig) bool { return d.Name == name }) {
			c.Datasets = append(c.Datasets, DatasetConfig{
				Name: name, SchemaSHA256: roundtest.Schema, Unit: "record", Budget: budget,
			})
		}
	}
}

// planned is the budget of datasets with the filter pld.
var planned = privacy.Budget{Epsilon: 20, Delta: 1e-5, Filter: privacy.FilterPLD}

// roomy configures a cluster that many tests share, five times in one process (-count).
func roomy(c *Config) {
	c.MaxOpenRuns = 1000
	c.datasets("d", 300, c.Datasets[0].Budget)
	c.datasets("p", 15, planned)
}

// see stores the exact sums of a release.
func (c *cluster) see(run string, _ uint64, sums []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.private[run] = append(c.private[run], slices.Clone(sums))
}

// behind returns the exact sums of a run's releases, without noise.
func (c *cluster) behind(run string) [][]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.private[run]
}

// anyFacts are the facts of a run that a test opens in the store.
var anyFacts = ledger.Facts{Pipeline: "pategan", SchemaSHA256: roundtest.Schema, Teachers: 8}

// start runs a server over the cluster's folder; c.stop ends it and returns
// what Serve returned.
func (c *cluster) start(options Options) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*testkit.Patience)
	defer cancel()
	options.Reducers = reducer.NewRegistry(logistic.Fit)
	options.Hooks.Sums = c.see
	server, err := New(ctx, c.config, options)
	if err != nil {
		c.t.Fatal(err)
	}
	serving, cancelServing := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving) }()
	c.server = server
	c.ended = func() error {
		c.stop = nil
		err := testkit.Receive(c.t, served)
		cancelServing()
		return errors.Join(err, server.Close())
	}
	c.stop = func() error {
		cancelServing()
		return c.ended()
	}
}

// dataset names a dataset that no other test uses.
func (c *cluster) dataset() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return fmt.Sprint("d", c.next-1)
}

// planned names a dataset with the filter pld that no other test uses.
func (c *cluster) planned() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextPlanned++
	return fmt.Sprint("p", c.nextPlanned-1)
}

func (c *cluster) dial(t testing.TB, files certs.Files) *grpc.ClientConn {
	t.Helper()
	tlsConfig, err := tlsconfig.Client(files, "127.0.0.1")
	testkit.Must(t, err)
	conn, err := grpc.NewClient(c.server.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig)))
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (c *cluster) student(t testing.TB) *testStudent { return c.studentAs(t, "student") }

func (c *cluster) studentAs(t testing.TB, name string) *testStudent {
	t.Helper()
	return &testStudent{rpc.NewStudentServiceClient(c.dialAs(t, certs.RoleStudent, name))}
}

// testStudent calls the aggregator as a student does.
type testStudent struct {
	rpc.StudentServiceClient
}

// open opens a run; change adapts roundtest.Spec.
func (s *testStudent) open(t testing.TB, dataset string, change func(*conclavev1.RunSpec)) (*conclavev1.RunSpec,
	*conclavev1.OpenRunResponse) {
	t.Helper()
	spec := specOn(dataset, change)
	response, err := s.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec})
	testkit.Must(t, err)
	return spec, response
}

// tryOpen is open for runs that may be refused.
func (s *testStudent) tryOpen(t testing.TB, dataset string, change func(*conclavev1.RunSpec)) error {
	t.Helper()
	_, err := s.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: specOn(dataset, change)})
	return err
}

func specOn(dataset string, change func(*conclavev1.RunSpec)) *conclavev1.RunSpec {
	spec := roundtest.Spec()
	spec.Dataset, spec.Name = dataset, "run-"+dataset
	if change != nil {
		change(spec)
	}
	return spec
}

// ask sends a round and waits for its release. Progress goes to watch, which may
// be nil.
func (s *testStudent) ask(ctx context.Context, round *conclavev1.Round,
	watch func(*conclavev1.Progress)) (*conclavev1.Release, error) {
	raw, err := proto.Marshal(round)
	if err != nil {
		return nil, err
	}
	return s.askBytes(ctx, payload.Key{Run: round.GetRun(), Number: round.GetNumber()}, raw, watch)
}

// askBytes sends a serialized round in parts of 100 bytes, at most 20 of them.
func (s *testStudent) askBytes(ctx context.Context, key payload.Key, raw []byte,
	watch func(*conclavev1.Progress)) (*conclavev1.Release, error) {
	size := max(100, (len(raw)+19)/20)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.Ask(ctx)
	if err != nil {
		return nil, err
	}
	total := uint32((len(raw) + size - 1) / size)
	for i := range total {
		data := raw[int(i)*size : min(int(i+1)*size, len(raw))]
		p := &conclavev1.RoundPart{Run: key.Run, Round: key.Number, Part: i, Parts: total, Data: data}
		if err := stream.Send(&conclavev1.AskRequest{Part: p}); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var release parts.Release
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if r, err := release.Add(m); r != nil || err != nil {
			return r, err
		}
		if watch != nil && m.GetProgress() != nil {
			watch(m.GetProgress())
		}
	}
}

func (s *testStudent) mustAsk(t testing.TB, round *conclavev1.Round) *conclavev1.Release {
	t.Helper()
	r, err := s.ask(testkit.Within(t), round, nil)
	testkit.Must(t, err)
	return r
}

// ledger reads and verifies the ledger of a run's dataset, and returns its releases.
func (s *testStudent) ledger(t testing.TB, run string) []ledger.Entry {
	t.Helper()
	return releasesOf(t, s.lines(t, run), run)
}

// lines returns the whole ledger of a run's dataset, verified.
func (s *testStudent) lines(t testing.TB, run string) string {
	t.Helper()
	stream, err := s.ReadLedger(testkit.Within(t), &conclavev1.ReadLedgerRequest{Run: run})
	testkit.Must(t, err)
	var lines strings.Builder
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.Must(t, err)
		lines.Write(m.GetEntry())
		lines.WriteByte('\n')
	}
	if _, err := ledger.Verify(strings.NewReader(lines.String())); err != nil && !errors.Is(err, ledger.ErrUnclosed) {
		t.Fatalf("the ledger does not verify: %v", err)
	}
	return lines.String()
}

// refused asks a round and requires a refusal with this code and these words. It returns the refusal.
func (s *testStudent) refused(t testing.TB, round *conclavev1.Round, code codes.Code, words ...string) error {
	t.Helper()
	_, err := s.ask(testkit.Within(t), round, nil)
	roundtest.WantStatus(t, err, code, words...)
	return err
}

func (s *testStudent) close(t testing.TB, run string) {
	t.Helper()
	_, err := s.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: run})
	testkit.Must(t, err)
}

// inBackground asks a round and sends its outcome to the channel.
func inBackground(t testing.TB, student *testStudent, round *conclavev1.Round) <-chan error {
	outcome := make(chan error, 1)
	go func() {
		_, err := student.ask(testkit.Within(t), round, nil)
		outcome <- err
	}()
	return outcome
}

// releasing asks a round in the background and requires a release.
func releasing(t testing.TB, student *testStudent, round *conclavev1.Round) <-chan *conclavev1.Release {
	released := make(chan *conclavev1.Release, 1)
	go func() {
		r, err := student.ask(testkit.Within(t), round, nil)
		if err != nil {
			t.Error(err)
		}
		released <- r
	}()
	return released
}

// begin opens a run on its own dataset, with one node that has all teachers.
func (c *cluster) begin(t testing.TB, change func(*conclavev1.RunSpec), answer roundtest.Answer) (
	*testStudent, *conclavev1.RunSpec, *testNode) {
	t.Helper()
	student, d := c.student(t), c.dataset()
	spec, _ := student.open(t, d, change)
	return student, spec, c.node(t, hello(d, "north", "a", spec.GetTeachers()), answer)
}

// testNode is a scripted node: its answer function answers every round, or returns nil for no answer.
type testNode struct {
	t         testing.TB
	stream    rpc.TeacherService_WorkClient
	cancel    context.CancelFunc
	welcomed  chan struct{}
	greeting  *conclavev1.Welcome // valid once welcomed is closed
	ended     chan struct{}
	err       error // why the stream ended; valid once ended is closed
	rounds    chan *conclavev1.Round
	attempts  chan uint64 // attempts of the received rounds
	withdrawn chan *conclavev1.Withdraw
	terms     chan *conclavev1.RoundTerms // the terms in each first part
	entries   chan []byte                 // ledger entries, line by line
	permits   chan *conclavev1.Permit
}

func hello(dataset, site, name string, teachers uint32) *conclavev1.Hello {
	return &conclavev1.Hello{
		Protocol: 5, Dataset: dataset, Site: site, Node: name, Teachers: teachers,
		SchemaSha256: roundtest.Schema, Unit: "record", Manifest: "fingerprint-" + site + "-" + name,
	}
}

// node connects a node and waits for its welcome.
func (c *cluster) node(t testing.TB, h *conclavev1.Hello, answer roundtest.Answer) *testNode {
	t.Helper()
	return c.nodeOf(t, h, answer, roundtest.Permitted)
}

// nodeOf connects a node whose site may deny a run.
func (c *cluster) nodeOf(t testing.TB, h *conclavev1.Hello, answer roundtest.Answer, permit permit) *testNode {
	t.Helper()
	n := c.tryNodeOf(t, h, answer, permit)
	select {
	case <-n.welcomed:
	case <-n.ended:
		t.Fatalf("node %s/%s was refused: %v", h.GetSite(), h.GetNode(), n.err)
	case <-time.After(testkit.Patience):
		t.Fatalf("node %s/%s was not welcomed", h.GetSite(), h.GetNode())
	}
	return n
}

func (c *cluster) tryNode(t testing.TB, h *conclavev1.Hello, answer roundtest.Answer) *testNode {
	t.Helper()
	return c.tryNodeOf(t, h, answer, roundtest.Permitted)
}

// permit answers whether the node's site permits a run.
type permit func(*conclavev1.Permit) *conclavev1.WorkRequest

func (c *cluster) tryNodeOf(t testing.TB, h *conclavev1.Hello, answer roundtest.Answer, permit permit) *testNode {
	t.Helper()
	conn := c.dial(t, certs.IssuedFiles(c.certs, certs.RoleNode, h.GetSite()))
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := rpc.NewTeacherServiceClient(conn).Work(ctx)
	testkit.Must(t, err)
	mustSend(t, stream, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: h}})
	n := &testNode{
		t: t, stream: stream, cancel: cancel, welcomed: make(chan struct{}), ended: make(chan struct{}),
		rounds: make(chan *conclavev1.Round, 10000), attempts: make(chan uint64, 10000),
		withdrawn: make(chan *conclavev1.Withdraw, 10000),
		terms:     make(chan *conclavev1.RoundTerms, 10000),
		entries:   make(chan []byte, 10000),
		permits:   make(chan *conclavev1.Permit, 10000),
	}
	go n.work(answer, permit)
	t.Cleanup(n.leave)
	return n
}

// leave ends the stream as a dying process does.
func (n *testNode) leave() {
	n.cancel()
	testkit.Receive(n.t, n.ended)
}

func (n *testNode) work(answer roundtest.Answer, permit permit) {
	defer close(n.ended)
	var raw []byte
	for {
		m, err := n.stream.Recv()
		if err != nil {
			n.err = err
			return
		}
		switch {
		case m.GetWelcome() != nil:
			n.greeting = m.GetWelcome()
			close(n.welcomed)
		case m.GetWithdraw() != nil:
			n.withdrawn <- m.GetWithdraw()
		case m.GetEntries() != nil:
			for _, line := range m.GetEntries().GetLines() {
				n.entries <- line
			}
		case m.GetPermit() != nil:
			p := m.GetPermit()
			n.permits <- p
			reply := permit(p)
			reply.Attempt = m.GetAttempt()
			_ = n.stream.Send(reply) // the reader reports why the stream ended
		case m.GetPart() != nil:
			p := m.GetPart()
			if p.GetPart() == 0 {
				n.terms <- m.GetTerms()
			}
			raw = append(raw, p.GetData()...)
			if p.GetPart()+1 < p.GetParts() {
				continue
			}
			round := new(conclavev1.Round)
			if n.err = proto.Unmarshal(raw, round); n.err != nil {
				return
			}
			raw = nil
			n.attempts <- m.GetAttempt()
			n.rounds <- round
			for _, reply := range answer(round) {
				reply.Attempt = m.GetAttempt()
				if n.stream.Send(reply) != nil {
					break
				}
			}
		}
	}
}

// mustSend sends on a stream that may have ended already. If the server refused the stream early, for example by the
// certificate's role, Send returns io.EOF and Recv returns the reason.
func mustSend[M any](t testing.TB, stream interface{ Send(M) error }, m M) {
	t.Helper()
	if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}
