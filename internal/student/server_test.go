package student

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig/tlsconfigtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.WaitTogether()
	goleak.VerifyTestMain(m)
}

// service is a scripted aggregator. Its functions get the number of the call, from 0.
type service struct {
	rpc.UnimplementedStudentServiceServer
	open   func(call int, r *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error)
	ask    func(call int, stream rpc.StudentService_AskServer) error
	ledger func(call int, stream rpc.StudentService_ReadLedgerServer) error

	mu    sync.Mutex
	calls int
}

func (s *service) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.calls - 1
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *service) OpenRun(_ context.Context, r *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
	return s.open(s.next(), r)
}

func (s *service) Ask(stream rpc.StudentService_AskServer) error {
	return s.ask(s.next(), stream)
}

func (s *service) ReadLedger(_ *conclavev1.ReadLedgerRequest, stream rpc.StudentService_ReadLedgerServer) error {
	return s.ledger(s.next(), stream)
}

// serve starts an aggregator over TLS and returns its address and a function that stops it.
func serve(t *testing.T, dir, address string, s *service) (string, func()) {
	t.Helper()
	return tlsconfigtest.Serve(t, certs.IssuedFiles(dir, certs.RoleAggregator, "agg"), address,
		func(server *grpc.Server) { rpc.RegisterStudentServiceServer(server, s) })
}

// studentConfig is the configuration of a student with short pauses.
func studentConfig(dir, address string) Config {
	c := DefaultConfig()
	c.Aggregator, c.Dataset, c.Run = address, "data", "run.yaml"
	c.TLS = certs.IssuedFiles(dir, certs.RoleStudent, "lab")
	c.Retry, c.Patience = 50*time.Millisecond, 10*time.Second
	return c
}

func newClient(t *testing.T, c Config) *Client {
	t.Helper()
	client, err := Dial(c, zap.NewNop())
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return client
}

// connected is a client of the scripted server.
func connected(t *testing.T, s *service) *Client {
	t.Helper()
	return patient(t, s, 10*time.Second)
}

// patient is connected with this patience.
func patient(t *testing.T, s *service, patience time.Duration) *Client {
	t.Helper()
	dir := certstest.New(t)
	address, _ := serve(t, dir, "127.0.0.1:0", s)
	c := studentConfig(dir, address)
	c.Patience = patience
	return newClient(t, c)
}

// opens is an aggregator that returns these errors in turn, then the last one forever; nil opens the run.
func opens(errs ...error) *service {
	return &service{open: func(call int, r *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
		return &conclavev1.OpenRunResponse{Aggregator: r.Spec.GetName()}, errs[min(call, len(errs)-1)]
	}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
}
