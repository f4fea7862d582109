package student

import (
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.WaitTogether()
	goleak.VerifyTestMain(m)
}

// service is an aggregator that does what a test tells it. Its functions get
// the number of the call, from 0.
type service struct {
	conclavev1.UnimplementedStudentServiceServer
	open   func(call int, r *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error)
	ask    func(call int, stream conclavev1.StudentService_AskServer) error
	ledger func(call int, stream conclavev1.StudentService_ReadLedgerServer) error

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

func (s *service) Ask(stream conclavev1.StudentService_AskServer) error {
	return s.ask(s.next(), stream)
}

func (s *service) ReadLedger(_ *conclavev1.ReadLedgerRequest, stream conclavev1.StudentService_ReadLedgerServer) error {
	return s.ledger(s.next(), stream)
}

// newAuthority makes certificates for an aggregator on loopback and a student.
func newAuthority(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "certs")
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "agg", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(t, authority.Issue(dir, certs.RoleStudent, "s", nil, time.Hour))
	return dir
}

// serve starts an aggregator over TLS and returns its address and its stop.
func serve(t *testing.T, dir, address string, s *service) (string, func()) {
	t.Helper()
	config, err := tlsconfig.Server(certs.IssuedFiles(dir, certs.RoleAggregator, "agg"))
	testkit.Must(t, err)
	listener, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	conclavev1.RegisterStudentServiceServer(server, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	stop := sync.OnceFunc(func() {
		server.Stop()
		testkit.Receive(t, done)
	})
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// studentConfig is a student's that loses no time.
func studentConfig(dir, address string) Config {
	c := DefaultConfig()
	c.Aggregator, c.Dataset, c.Run = address, "data", "run.yaml"
	c.TLS = certs.IssuedFiles(dir, certs.RoleStudent, "s")
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

// connected is a client of a server that does what s says.
func connected(t *testing.T, s *service) *Client {
	t.Helper()
	dir := newAuthority(t)
	address, _ := serve(t, dir, "127.0.0.1:0", s)
	return newClient(t, studentConfig(dir, address))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
}
