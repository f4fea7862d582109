package student

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/certstest"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig/tlsconfigtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// queueService is an aggregator with one run in its queue.
type queueService struct {
	rpc.UnimplementedRunServiceServer
	rpc.UnimplementedStudentServiceServer

	// claim handles the streams by number; nil gives out the run.
	claim func(call int, stream rpc.RunService_ClaimRunServer) error
	// watch answers the calls of a watch.
	watch func(call int, stream rpc.RunService_WatchRunServer) error
	// fetched is the bundle's messages; if endless, the last one repeats.
	fetched []*conclavev1.FetchRunResponse
	endless bool
	// shown is the run's status, nil without a run.
	shown *conclavev1.RunStatus

	mu       sync.Mutex
	workers  []*conclavev1.Worker
	progress []*conclavev1.RunProgress
	finished []*conclavev1.FinishRunRequest
	claims   []string // claims in students' calls
	watches  int
	over     chan error // how streams ended
}

func (s *queueService) ClaimRun(stream rpc.RunService_ClaimRunServer) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.workers = append(s.workers, m.GetWorker())
	call := len(s.workers) - 1
	s.mu.Unlock()
	if s.claim == nil {
		return s.hold(stream)
	}
	return s.claim(call, stream)
}

// hold gives out the run, and takes progress until the worker leaves.
func (s *queueService) hold(stream rpc.RunService_ClaimRunServer) error {
	if err := give(stream); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			s.over <- err
			return nil
		}
		s.mu.Lock()
		s.progress = append(s.progress, m.GetProgress())
		s.mu.Unlock()
	}
}

func (s *queueService) FinishRun(_ context.Context,
	q *conclavev1.FinishRunRequest) (*conclavev1.FinishRunResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = append(s.finished, q)
	if len(s.finished) == 1 {
		return nil, status.Error(codes.Unavailable, "the answer is lost")
	}
	return &conclavev1.FinishRunResponse{}, nil
}

func (s *queueService) ShowRun(context.Context, *conclavev1.ShowRunRequest) (*conclavev1.ShowRunResponse, error) {
	if s.shown == nil {
		return nil, status.Error(codes.NotFound, "no such run")
	}
	return &conclavev1.ShowRunResponse{Run: s.shown}, nil
}

// give sends the run.
func give(stream rpc.RunService_ClaimRunServer) error {
	return stream.Send(&conclavev1.ClaimRunResponse{
		Message: &conclavev1.ClaimRunResponse_Claimed{Claimed: &conclavev1.ClaimedRun{Name: "a", Claim: "c1"}},
	})
}

func (s *queueService) WatchRun(_ *conclavev1.WatchRunRequest, stream rpc.RunService_WatchRunServer) error {
	s.mu.Lock()
	s.watches++
	call := s.watches - 1
	s.mu.Unlock()
	return s.watch(call, stream)
}

func (s *queueService) noteClaim(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, metadata.ValueFromIncomingContext(ctx, claimKey)...)
}

func (s *queueService) OpenRun(ctx context.Context, _ *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
	s.noteClaim(ctx)
	return &conclavev1.OpenRunResponse{}, nil
}

func (s *queueService) Ask(stream rpc.StudentService_AskServer) error {
	s.noteClaim(stream.Context())
	return status.Error(codes.FailedPrecondition, "not now")
}

func serveQueue(t *testing.T, s *queueService) *Queue {
	t.Helper()
	dir := certstest.New(t)
	s.over = make(chan error, 10)
	address, _ := tlsconfigtest.Serve(t, certs.IssuedFiles(dir, certs.RoleAggregator, "agg"), "127.0.0.1:0",
		func(server *grpc.Server) {
			rpc.RegisterRunServiceServer(server, s)
			rpc.RegisterStudentServiceServer(server, s)
		})
	return newClient(t, studentConfig(dir, address)).Queue()
}

// claimed is the run after a worker claimed it.
func claimed(t *testing.T, s *queueService) *Held {
	t.Helper()
	held, err := serveQueue(t, s).Claim(testkit.Within(t), &conclavev1.Worker{Dataset: "d", Name: "w"})
	testkit.Must(t, err)
	return held
}

// A broken stream is reopened with the claim, and the run continues.
func TestAHeldRunOutlivesItsStream(t *testing.T) {
	t.Parallel()
	s := &queueService{}
	s.claim = func(call int, stream rpc.RunService_ClaimRunServer) error {
		if call == 0 {
			_ = give(stream)
			return status.Error(codes.Unavailable, "stopping")
		}
		return s.hold(stream)
	}
	q := serveQueue(t, s)
	held, err := q.Claim(testkit.Within(t), &conclavev1.Worker{Dataset: "d", Name: "w", Folders: []string{"x"}})
	testkit.Must(t, err)
	held.Report(&conclavev1.RunProgress{Round: 1})
	held.Report(&conclavev1.RunProgress{Round: 2})
	testkit.Eventually(t, "progress", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.progress) > 0
	})
	if held.Context().Err() != nil {
		t.Errorf("the run was lost: %v", context.Cause(held.Context()))
	}
	_, err = held.Client().OpenRun(testkit.Within(t), &conclavev1.RunSpec{})
	testkit.Must(t, err)
	_, err = held.Client().Ask(testkit.Within(t), &conclavev1.Round{Run: "a"}, Asking{}, nil)
	if !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	_, err = q.OpenRun(testkit.Within(t), &conclavev1.RunSpec{}) // not the claim's
	testkit.Must(t, err)
	testkit.Must(t,
		held.Finish(testkit.Within(t), conclavev1.RunState_RUN_STATE_DONE, "", []*conclavev1.RunResult{{Name: "x"}}))
	if err := testkit.Receive(t, s.over); status.Code(err) != codes.Canceled && !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workers[1]; len(s.workers) != 2 || w.GetRun() != "a" || w.GetClaim() != "c1" || w.GetName() != "w" ||
		w.GetDataset() != "d" {
		t.Errorf("the worker came back as %v", s.workers)
	}
	if s.progress[0].GetRound() != 2 {
		t.Errorf("progress %v; want the newest", s.progress)
	}
	if len(s.finished) != 2 || s.finished[1].GetClaim() != "c1" ||
		s.finished[1].GetState() != conclavev1.RunState_RUN_STATE_DONE || len(s.finished[1].GetResults()) != 1 {
		t.Errorf("finished with %v", s.finished)
	}
	if len(s.claims) != 2 || s.claims[0] != "c1" || s.claims[1] != "c1" {
		t.Errorf("claims %v came; want those of the holder's two calls", s.claims)
	}
}

// Returning a run ends its requests, so that nobody waits for a grace period.
func TestGivingBackEndsTheRequests(t *testing.T) {
	s := &queueService{}
	q := serveQueue(t, s)
	ctx, stop := context.WithCancel(testkit.Within(t))
	held, err := q.Claim(ctx, &conclavev1.Worker{Dataset: "d", Name: "w"})
	testkit.Must(t, err)
	stop() // the worker is told to stop, but still has the run
	if held.Context().Err() != nil {
		t.Error("the run's context ended with the worker's")
	}
	if !held.GiveBack() {
		t.Error("the aggregator was not told")
	}
	if err := testkit.Receive(t, s.over); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want the end of its requests", err)
	}
	if !held.GiveBack() { // a second call does nothing
		t.Error("the aggregator was told, and not told")
	}
}

// A run cannot be returned while the aggregator is away; this is reported without a wait.
func TestGivingBackToNobody(t *testing.T) {
	broken := make(chan struct{})
	s := &queueService{}
	s.claim = func(call int, stream rpc.RunService_ClaimRunServer) error {
		if call == 0 {
			testkit.Must(t, give(stream))
		} else if call == 1 {
			close(broken)
		}
		return status.Error(codes.Unavailable, "stopping")
	}
	held := claimed(t, s)
	testkit.Receive(t, broken)
	told := make(chan bool, 1)
	go func() { told <- held.giveBack(2 * testkit.Patience) }() // longer than the test waits
	if testkit.Receive(t, told) {
		t.Error("the run was given back to an aggregator that is away")
	}
}

// A certificate that ended may have been renewed: the worker keeps the run with the new one.
func TestAHeldRunOutlivesItsCertificate(t *testing.T) {
	back := make(chan struct{})
	s := &queueService{}
	s.claim = func(call int, stream rpc.RunService_ClaimRunServer) error {
		if call == 0 {
			testkit.Must(t, give(stream))
			return status.Error(codes.Unauthenticated, "the certificate ended")
		}
		close(back)
		return s.hold(stream)
	}
	held := claimed(t, s)
	select {
	case <-back:
	case <-held.Context().Done():
		t.Fatalf("the run was lost: %v", context.Cause(held.Context()))
	case <-time.After(testkit.Patience):
		t.Fatal("the stream was not opened again")
	}
	if !held.GiveBack() {
		t.Error("the aggregator was not told")
	}
}

// The queue says who has a run.
func TestConfirm(t *testing.T) {
	running, waiting := conclavev1.RunState_RUN_STATE_RUNNING, conclavev1.RunState_RUN_STATE_WAITING
	for _, c := range []struct {
		shown *conclavev1.RunStatus
		want  string // empty if the worker has the run
	}{
		{&conclavev1.RunStatus{State: running, Worker: "w"}, ""},
		{&conclavev1.RunStatus{State: running, Worker: "v"}, `worker "v" has claimed it`},
		{&conclavev1.RunStatus{State: waiting, Worker: "w", Reason: "silent for too long"},
			"no longer this worker's: silent for too long"},
		{&conclavev1.RunStatus{State: conclavev1.RunState_RUN_STATE_CANCELLED, Reason: "by eve"}, "cancelled: by eve"},
		{nil, "no such run"},
	} {
		held := claimed(t, &queueService{shown: c.shown})
		var lost *LostError
		switch err := held.Confirm(testkit.Within(t)); {
		case c.want == "" && err != nil:
			t.Errorf("%v: %v", c.shown, err)
		case c.want != "" && (!errors.As(err, &lost) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: got %v, want %q", c.shown, err, c.want)
		}
		held.GiveBack()
	}
}

// Taking a run away ends its context with the reason.
func TestARunThatIsTakenAway(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := &queueService{}
		end := &conclavev1.ClaimRunResponse{Message: &conclavev1.ClaimRunResponse_Ended{
			Ended: &conclavev1.EndedRun{State: conclavev1.RunState_RUN_STATE_CANCELLED, Reason: "by eve"},
		}}
		s.claim = func(call int, stream rpc.RunService_ClaimRunServer) error {
			if call > 0 {
				return stream.Send(end)
			}
			if err := give(stream); err != nil || again { // learned when it reconnects
				return err
			}
			return stream.Send(end)
		}
		held := claimed(t, s)
		testkit.Receive(t, held.Context().Done())
		var lost *LostError
		if cause := context.Cause(held.Context()); !errors.As(cause, &lost) ||
			lost.State != conclavev1.RunState_RUN_STATE_CANCELLED || lost.Reason != "by eve" {
			t.Errorf("lost by %v", cause)
		}
		held.GiveBack()
	}
}

// It ends properly, so that a run that arrives at that moment is returned and not lost.
func TestWaitingForARunEndsWithTheContext(t *testing.T) {
	s := &queueService{}
	s.claim = func(_ int, stream rpc.RunService_ClaimRunServer) error {
		_, err := stream.Recv()
		s.over <- err
		return give(stream)
	}
	q := serveQueue(t, s)
	ctx, stop := context.WithCancel(testkit.Within(t))
	time.AfterFunc(100*time.Millisecond, stop)
	if _, err := q.Claim(ctx, &conclavev1.Worker{Dataset: "d", Name: "w"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := testkit.Receive(t, s.over); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want the end of its requests", err)
	}
	q = serveQueue(t, &queueService{claim: func(int, rpc.RunService_ClaimRunServer) error {
		return status.Error(codes.FailedPrecondition, "dataset \"d\" is not served here")
	}})
	if _, err := q.Claim(testkit.Within(t), &conclavev1.Worker{Dataset: "d", Name: "w"}); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
}

// A watch continues after a change of leader, and ends with the run.
func TestAWatchGoesOn(t *testing.T) {
	s := &queueService{watch: func(call int, stream rpc.RunService_WatchRunServer) error {
		state := []conclavev1.RunState{conclavev1.RunState_RUN_STATE_WAITING, conclavev1.RunState_RUN_STATE_RUNNING,
			conclavev1.RunState_RUN_STATE_FAILED}[call]
		if err := stream.Send(&conclavev1.WatchRunResponse{Run: &conclavev1.RunStatus{Name: "a",
			State: state}}); err != nil {
			return err
		}
		if call == 0 {
			return status.Error(codes.Unavailable, "stopping")
		}
		return nil // a normal end, although the run has not ended the second time
	}}
	q := serveQueue(t, s)
	var states []conclavev1.RunState
	last, err := q.Watch(testkit.Within(t), "a", func(m *conclavev1.WatchRunResponse) {
		states = append(states, m.GetRun().GetState())
	})
	testkit.Must(t, err)
	if last.GetState() != conclavev1.RunState_RUN_STATE_FAILED || len(states) != 3 {
		t.Errorf("watched %v", states)
	}
}
