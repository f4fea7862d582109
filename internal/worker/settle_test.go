package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// A worker that was cut off for longer than its grace period has lost the run, which has not ended.
func TestAWorkerThatWasCutOffSaysSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	wire, log := c.newLink(), c.journal()
	c.submit("a", same)
	stopAway, _ := c.work(c.through(wire))
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() && r.GetWorker() == "away" })
	wire.Sever()
	c.await("a", in(conclavev1.RunState_RUN_STATE_WAITING))
	c.log = zap.NewNop()
	stop, _ := c.work(c.config)
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetWorker() == "w" })
	wire.Heal()
	testkit.Eventually(t, "the worker hears of it", func() bool {
		return log.has("run left", "no longer this worker's")
	})
	if r := c.await("a", in(conclavev1.RunState_RUN_STATE_RUNNING)); r.GetWorker() != "w" {
		t.Errorf("the run is %v", r)
	}
	testkit.Must(t, stopAway())
	testkit.Must(t, stop())
	log.saysOfNoEnd(t)
}

// elsewhere is an aggregator that gave a run to one worker and says that another has claimed it.
type elsewhere struct {
	rpc.UnimplementedRunServiceServer
	finished atomic.Int32
}

func (*elsewhere) ClaimRun(stream rpc.RunService_ClaimRunServer) error {
	if err := stream.Send(&conclavev1.ClaimRunResponse{
		Message: &conclavev1.ClaimRunResponse_Claimed{Claimed: &conclavev1.ClaimedRun{Name: "a", Claim: "c1"}},
	}); err != nil {
		return err
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
	}
}

func (*elsewhere) ShowRun(context.Context, *conclavev1.ShowRunRequest) (*conclavev1.ShowRunResponse, error) {
	return &conclavev1.ShowRunResponse{Run: &conclavev1.RunStatus{Name: "a",
		State: conclavev1.RunState_RUN_STATE_RUNNING, Worker: "v"}}, nil
}

func (e *elsewhere) FinishRun(context.Context, *conclavev1.FinishRunRequest) (*conclavev1.FinishRunResponse, error) {
	e.finished.Add(1)
	return nil, status.Error(codes.FailedPrecondition, "claimed by worker v")
}

// A refusal may come before the worker learns that another one has the run: it asks, and does not end that run.
func TestARefusalOfARunThatIsElsewhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "agg", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(t, authority.Issue(dir, certs.RoleStudent, "lab", nil, time.Hour))
	server, err := tlsconfig.Server(certs.IssuedFiles(dir, certs.RoleAggregator, "agg"))
	testkit.Must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	service, serving := new(elsewhere), grpc.NewServer(grpc.Creds(credentials.NewTLS(server)))
	rpc.RegisterRunServiceServer(serving, service)
	served := make(chan error, 1)
	go func() { served <- serving.Serve(listener) }()
	t.Cleanup(func() {
		serving.Stop()
		testkit.Must(t, testkit.Receive(t, served))
	})
	config := student.DefaultConfig()
	config.Aggregator, config.Dataset, config.TLS = listener.Addr().String(), "d",
		certs.IssuedFiles(dir, certs.RoleStudent, "lab")
	client, err := student.Dial(config, zap.NewNop())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, client.Close()) })
	held, err := client.Queue().Claim(testkit.Within(t), &conclavev1.Worker{Dataset: "d", Name: "w"})
	testkit.Must(t, err)
	c := new(cluster)
	said := c.journal()
	testkit.Must(t, (&slot{config: config, name: "w"}).settle(testkit.Within(t), held, c.log, nil,
		fmt.Errorf("ask: %w: the run is waiting in the queue", student.ErrRefused)))
	if n := service.finished.Load(); n != 0 {
		t.Errorf("the run was ended %d times", n)
	}
	if !said.has("run left", `worker \"v\" has claimed it`) {
		t.Errorf("the log is\n%s", strings.Join(said.lines(), "\n"))
	}
	said.saysOfNoEnd(t)
}

// Nobody can tell whether the run filled the disk. So the worker ends and the run counts as lost, which keeps it from
// stopping workers forever. Other disk problems concern only the worker.
func TestAFullDiskCountsAsALostWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, trouble := range map[string]struct {
		errno  syscall.Errno
		reason string
	}{"full": {syscall.ENOSPC, "of its own"}, "denied": {syscall.EACCES, "returned it"}} {
		c.submit(name, same)
		held, err := c.queue.Claim(testkit.Within(t), &conclavev1.Worker{Dataset: "d", Name: name})
		testkit.Must(t, err)
		if held.Run.GetName() != name {
			t.Fatalf("claimed %v", held.Run)
		}
		err = (&slot{config: c.config, name: name}).settle(testkit.Within(t), held, c.log, nil,
			fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "rows.csv", Err: trouble.errno}))
		if !errors.Is(err, trouble.errno) {
			t.Errorf("%s: the worker goes on: %v", name, err)
		}
		r := c.await(name, in(conclavev1.RunState_RUN_STATE_WAITING))
		if !strings.Contains(r.GetReason(), trouble.reason) {
			t.Errorf("%s is %v", name, r)
		}
		_, err = c.queue.Cancel(testkit.Within(t), name, false)
		testkit.Must(t, err)
	}
}

// A run is not returned while the aggregator is away, and the log does not claim so.
func TestAWorkerThatIsStoppedWhileTheAggregatorIsAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	wire, log := c.newLink(), c.journal()
	c.submit("a", same)
	stop, _ := c.work(c.through(wire))
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	wire.Sever()
	testkit.Must(t, stop())
	if !log.has("run left: told to stop", "could not be told", "worker_grace") || log.has("given back") {
		t.Errorf("the log is\n%s", strings.Join(log.lines(), "\n"))
	}
	log.saysOfNoEnd(t)
	c.await("a", in(conclavev1.RunState_RUN_STATE_WAITING))
}

// A worker whose certificate is revoked ends; the run does not.
func TestAWorkerWhoseCertificateIsRevoked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	log := c.journal()
	folder := filepath.Join(c.dir, "certs")
	hired := c.config
	hired.TLS = certs.IssuedFiles(folder, certs.RoleStudent, "hired")
	c.submit("a", same)
	_, ended := c.work(hired)
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	_, err := authority.Revoke(folder,
		authority.Revocation{Role: certs.RoleStudent, Name: "hired", Reason: certs.ReasonWithdrawn})
	testkit.Must(t, err)
	select {
	case err := <-ended:
		if !errors.Is(err, student.ErrCertificate) || !strings.Contains(err.Error(), `run "a" was `) {
			t.Errorf("the worker ended with %v", err)
		}
	case <-time.After(testkit.Patience):
		t.Fatalf("the worker goes on:\n%s", strings.Join(log.lines(), "\n"))
	}
	log.saysOfNoEnd(t)
	c.await("a", in(conclavev1.RunState_RUN_STATE_WAITING))
}

// Each line names the run at most once, and lines of the run itself name it.
func TestLogLinesNameTheRunOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	log := c.journal()
	c.submit("a", same)
	stop, _ := c.work(c.config)
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	testkit.Eventually(t, "the run is open", func() bool { return log.has(`"run open"`) })
	testkit.Must(t, stop())
	for _, line := range log.lines() {
		fields := map[string]bool{}
		read := json.NewDecoder(strings.NewReader(line))
		_, err := read.Token()
		testkit.Must(t, err)
		for read.More() {
			key, err := read.Token()
			testkit.Must(t, err)
			if fields[key.(string)] {
				t.Errorf("field %v is listed twice: %s", key, line)
			}
			fields[key.(string)] = true
			testkit.Must(t, read.Decode(new(any)))
		}
		if strings.Contains(line, `"run open"`) && (!fields["run"] || !fields["worker"]) {
			t.Errorf("no run or worker in %s", line)
		}
	}
}
