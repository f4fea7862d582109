package attacks

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// schema is the schema hash of all datasets.
const schema = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// world is the aggregator under attack. Nearly all tests share it, so each meets what earlier ones left behind.
type world struct {
	dir, certs string
	server     *aggregator.Server
	stop       func() error

	mu             sync.Mutex
	names, planned int
	counts         map[string][]int64 // exact sums of releases, by run
	closers        []func()
	connections    map[string]*grpc.ClientConn // by role and name
}

var shared *world

// attacked returns the shared aggregator, and starts it the first time.
func attacked(t testing.TB) *world {
	t.Helper()
	if shared == nil {
		w, err := start()
		testkit.Must(t, err)
		shared = w
	}
	return shared
}

// apart returns an aggregator that other tests do not use.
func apart(t *testing.T, change ...func(*aggregator.Config)) *world {
	t.Helper()
	w, err := start(change...)
	testkit.Must(t, err)
	t.Cleanup(func() {
		testkit.Must(t, w.close())
		testkit.Must(t, os.RemoveAll(w.dir))
	})
	return w
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if shared != nil {
		if err := shared.close(); err != nil {
			fmt.Fprintln(os.Stderr, "the aggregator does not end in order:", err)
			code = 1
		}
		os.RemoveAll(shared.dir)
		// A fuzzing worker has its own goroutines.
		if err := goleak.Find(); err != nil && code == 0 && flag.Lookup("test.fuzz").Value.String() == "" {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// datasets is the number of datasets of each kind; every case uses its own.
const datasets, plannedDatasets = 160, 12

func start(change ...func(*aggregator.Config)) (*world, error) {
	// A short path: the embedded etcd listens on a Unix socket below it.
	dir, err := os.MkdirTemp("", "hst")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir, certs: filepath.Join(dir, "certs"), counts: map[string][]int64{},
		connections: map[string]*grpc.ClientConn{}}
	err = authority.Create(w.certs)
	for name, role := range map[string]certs.Role{"agg": certs.RoleAggregator, "lab": certs.RoleStudent,
		"eve": certs.RoleStudent, "north": certs.RoleNode, "mallory": certs.RoleNode} {
		var hosts []string
		if role == certs.RoleAggregator {
			hosts = []string{"127.0.0.1"}
		}
		err = errors.Join(err, authority.Issue(w.certs, role, name, hosts, time.Hour))
	}
	if err != nil {
		return nil, err
	}
	config := aggregator.DefaultConfig()
	config.Name, config.Listen, config.HTTP.Listen = "agg", "127.0.0.1:0", "127.0.0.1:0"
	config.TLS = certs.IssuedFiles(w.certs, certs.RoleAggregator, "agg")
	config.Drain, config.LeastDeadline = 0, 0
	config.Fetch.MaxBytes = 8 << 20
	for _, f := range change {
		f(&config)
	}
	config.MaxPlanEntries = 1000 * 64 // as for several students: with less, one could fill the ledger
	config.Etcd.Embedded, config.Etcd.Dir = true, filepath.Join(dir, "etcd")
	dataset := func(name string, filter privacy.Filter) aggregator.DatasetConfig {
		return aggregator.DatasetConfig{Name: name, SchemaSHA256: schema, Unit: "record",
			Budget: privacy.Budget{Epsilon: 100, Delta: 1e-5, Filter: filter}}
	}
	for i := range datasets {
		config.Datasets = append(config.Datasets, dataset(fmt.Sprintf("d%d", i), privacy.FilterGDP))
	}
	for i := range plannedDatasets {
		config.Datasets = append(config.Datasets, dataset(fmt.Sprintf("p%d", i), privacy.FilterPLD))
	}
	keep := func(run string, counts []int64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.counts[run] = slices.Clone(counts)
	}
	hooks := aggregator.Hooks{
		Votes: func(run string, _ uint64, counts []int64, _ *conclavev1.NoisyVotes) { keep(run, counts) },
		Sums:  func(run string, _ uint64, counts []int64) { keep(run, counts) },
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	options := aggregator.Options{Hooks: hooks, Reducers: kinds.Reducers()}
	if w.server, err = aggregator.New(ctx, config, options); err != nil {
		return nil, err
	}
	serving, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(serving) }()
	w.stop = func() error {
		end()
		return errors.Join(<-served, w.server.Close())
	}
	return w, nil
}

func (w *world) close() error {
	for _, end := range w.closers {
		end()
	}
	for _, c := range w.connections {
		c.Close()
	}
	return w.stop()
}

// dataset names a dataset that no other case uses.
func (w *world) dataset(planned bool) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if planned {
		w.planned++
		return fmt.Sprintf("p%d", w.planned-1)
	}
	w.names++
	return fmt.Sprintf("d%d", w.names-1)
}

func (w *world) countsOf(run string) []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[run]
}

func (w *world) address() string { return w.server.Addr().String() }

func (w *world) files(role certs.Role, name string) certs.Files {
	return certs.IssuedFiles(w.certs, role, name)
}

// dial makes a connection that ends with the test.
func (w *world) dial(t testing.TB, role certs.Role, name string, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := w.connect(role, name, more...)
	testkit.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (w *world) connect(role certs.Role, name string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	config, err := tlsconfig.Client(w.files(role, name), "127.0.0.1")
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(w.address(), append(more, grpc.WithTransportCredentials(credentials.NewTLS(config)))...)
}

// honest is a lasting connection of the honest node's site or the student.
func (w *world) honest(t testing.TB, role certs.Role, name string) *grpc.ClientConn {
	t.Helper()
	key := string(role) + name
	if w.connections[key] == nil {
		conn, err := w.connect(role, name)
		testkit.Must(t, err)
		w.connections[key] = conn
	}
	return w.connections[key]
}

func (w *world) student(t testing.TB) rpc.StudentServiceClient {
	return rpc.NewStudentServiceClient(w.honest(t, certs.RoleStudent, "lab"))
}

// healthy checks that the aggregator serves.
func (w *world) healthy(t testing.TB) {
	t.Helper()
	r, err := healthpb.NewHealthClient(w.honest(t, certs.RoleStudent, "lab")).Check(testkit.Within(t),
		&healthpb.HealthCheckRequest{})
	testkit.Must(t, err)
	if r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("the aggregator is %v", r.GetStatus())
	}
}

// metrics are the aggregator's counters, by name and labels.
func (w *world) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	q, err := http.NewRequestWithContext(testkit.Within(t), "GET", "http://"+w.server.MonitorAddr().String()+"/metrics",
		nil)
	testkit.Must(t, err)
	q.Close = true
	r, err := http.DefaultClient.Do(q)
	testkit.Must(t, err)
	defer r.Body.Close()
	all := map[string]float64{}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if strings.HasPrefix(lines.Text(), "conclave_") && at > 0 {
			all[lines.Text()[:at]], err = strconv.ParseFloat(lines.Text()[at+1:], 64)
			testkit.Must(t, err)
		}
	}
	testkit.Must(t, lines.Err())
	_, _ = io.Copy(io.Discard, r.Body)
	return all
}

// rejections are the counts of conclave_messages_rejected_total, by kind.
func (w *world) rejections(t testing.TB) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for name, n := range w.metrics(t) {
		if rest, ok := strings.CutPrefix(name, `conclave_messages_rejected_total{kind="`); ok {
			all[strings.TrimSuffix(rest, `"}`)] = n
		}
	}
	return all
}

// awaitRejections waits until a kind of rejection was counted n times more than before.
func (w *world) awaitRejections(t testing.TB, before map[string]float64, kind string, n float64) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%v more of kind %s", n, kind), func() bool {
		return w.rejections(t)[kind]-before[kind] == n
	})
}

// heap is the live heap after garbage collection.
func heap() (bytes int64, goroutines int) {
	for range 2 { // pooled memory is freed by the third collection
		runtime.GC()
	}
	return collected()
}

func collected() (bytes int64, goroutines int) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine()
}

// settled is the heap once closed things are gone: the minimum of several measurements.
func settled() (bytes int64, goroutines int) {
	bytes, goroutines = heap()
	for range 6 {
		time.Sleep(50 * time.Millisecond)
		b, g := collected()
		bytes, goroutines = min(bytes, b), min(goroutines, g)
	}
	return bytes, goroutines
}

func withCancel(t testing.TB) (context.Context, func()) {
	ctx, cancel := context.WithCancel(testkit.Within(t))
	t.Cleanup(cancel)
	return ctx, cancel
}
