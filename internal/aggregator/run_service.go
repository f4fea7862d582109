package aggregator

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/queue"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// claimKey is the metadata in which calls about a run carry the claim of their worker.
	claimKey = "conclave-claim"
	// listPage is the number of runs in one message.
	listPage = 500
	// watchEvery is how often a watched run's rounds are looked at, besides at changes of
	// its state.
	watchEvery = time.Second
	watchRest  = 100 * time.Millisecond
)

// runService serves the queue to students.
type runService struct {
	conclavev1.UnimplementedRunServiceServer
	*Server
}

func claimOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, claimKey); len(values) == 1 {
		return values[0]
	}
	return ""
}

// refused writes why a call was refused to the audit log, and returns the error.
func (s *runService) refused(ctx context.Context, err error, e auditlog.Entry) error {
	if err != nil {
		s.auditRefusal(peer.SessionOf(ctx).Caller, err, e)
	}
	return err
}

// SubmitRun queues a run.
func (s *runService) SubmitRun(ctx context.Context, q *conclavev1.SubmitRunRequest) (
	*conclavev1.SubmitRunResponse, error) {
	r, err := s.submitRun(ctx, q)
	return r, s.refused(ctx, err,
		auditlog.Entry{Method: "SubmitRun", Dataset: q.GetSpec().GetDataset(), Run: q.GetSpec().GetName()})
}

func (s *runService) submitRun(ctx context.Context, q *conclavev1.SubmitRunRequest) (
	*conclavev1.SubmitRunResponse, error) {
	in, err := newSubmission(q)
	if err != nil {
		return nil, err
	}
	_, raw, err := s.acceptable(in.spec)
	if err != nil {
		return nil, err
	}
	session := peer.SessionOf(ctx)
	return s.queue.Submit(ctx, session.Caller, in.queued(session.Identity.Name, raw))
}

// CancelRun ends a run before its time.
func (s *runService) CancelRun(ctx context.Context, q *conclavev1.CancelRunRequest) (
	*conclavev1.CancelRunResponse, error) {
	status, err := s.cancelRun(ctx, q)
	if err != nil {
		return nil, s.refused(ctx, err, auditlog.Entry{Method: "CancelRun", Run: q.GetRun()})
	}
	return &conclavev1.CancelRunResponse{Run: status}, nil
}

func (s *runService) cancelRun(ctx context.Context, q *conclavev1.CancelRunRequest) (*conclavev1.RunStatus, error) {
	if err := checkName("run", q.GetRun()); err != nil {
		return nil, err
	}
	if err := s.auditLog.Check(); err != nil {
		return nil, err
	}
	return s.queue.Cancel(ctx, peer.SessionOf(ctx), q.GetRun(), q.GetForce())
}

// FinishRun ends a run in the words of its worker.
func (s *runService) FinishRun(ctx context.Context, q *conclavev1.FinishRunRequest) (
	*conclavev1.FinishRunResponse, error) {
	end, err := endOf(q)
	if err == nil {
		var status *conclavev1.RunStatus
		if status, err = s.queue.Finish(ctx, peer.SessionOf(ctx), q.GetRun(), end); err == nil {
			return &conclavev1.FinishRunResponse{Run: status}, nil
		}
	}
	return nil, s.refused(ctx, err, auditlog.Entry{Method: "FinishRun", Run: q.GetRun()})
}

// ListRuns sends all runs and the datasets' budgets.
func (s *runService) ListRuns(q *conclavev1.ListRunsRequest,
	stream grpc.ServerStreamingServer[conclavev1.ListRunsResponse]) error {
	ctx := stream.Context()
	var names []string
	for name := range s.datasets {
		if q.GetDataset() == "" || q.GetDataset() == name {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		_, err := s.dataset(q.GetDataset())
		return err
	}
	slices.Sort(names)
	var all []*conclavev1.RunStatus
	last := &conclavev1.ListRunsResponse{}
	for _, name := range names {
		runs, err := s.queue.List(ctx, name)
		if err != nil {
			return err
		}
		all = append(all, runs...)
		budget, _, err := s.queue.Budget(ctx, name, s.datasets[name].record.Budget.Delta)
		if err != nil {
			return err
		}
		last.Budgets = append(last.Budgets, budget)
	}
	slices.SortStableFunc(all, func(a, b *conclavev1.RunStatus) int {
		return strings.Compare(a.GetSubmitted(), b.GetSubmitted())
	})
	for len(all) > listPage {
		if err := stream.Send(&conclavev1.ListRunsResponse{Runs: all[:listPage]}); err != nil {
			return err
		}
		all = all[listPage:]
	}
	last.Runs = all
	return stream.Send(last)
}

// ShowRun returns one run.
func (s *runService) ShowRun(ctx context.Context, q *conclavev1.ShowRunRequest) (*conclavev1.ShowRunResponse, error) {
	if err := checkName("run", q.GetRun()); err != nil {
		return nil, err
	}
	status, progress, err := s.queue.Find(ctx, q.GetRun())
	if err != nil {
		return nil, err
	}
	raw, err := s.queue.RunFile(ctx, q.GetRun())
	return &conclavev1.ShowRunResponse{Run: status, Progress: progress, RunYaml: raw}, err
}

// WatchRun tells how a run stands until it has ended.
func (s *runService) WatchRun(q *conclavev1.WatchRunRequest,
	stream grpc.ServerStreamingServer[conclavev1.WatchRunResponse]) error {
	if err := checkName("run", q.GetRun()); err != nil {
		return err
	}
	ctx := stream.Context()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	var last *conclavev1.WatchRunResponse
	for {
		changed := s.queue.Changed()
		status, progress, err := s.queue.Find(ctx, q.GetRun())
		if err != nil {
			return err
		}
		if now := (&conclavev1.WatchRunResponse{Run: status, Progress: progress}); !proto.Equal(last, now) {
			if err := stream.Send(now); err != nil {
				return err
			}
			last = now
		}
		switch status.GetState() {
		case conclavev1.RunState_RUN_STATE_WAITING, conclavev1.RunState_RUN_STATE_RUNNING:
		default:
			return nil
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.stopping:
			return errStopping
		}
		// Changes of other runs come here too: of many, one look is enough.
		rest.Reset(watchRest)
		select {
		case <-rest.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ClaimRun gives a worker a run, and holds it for the worker until either lets go.
func (s *runService) ClaimRun(stream conclavev1.RunService_ClaimRunServer) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return invalidf("the stream ended before the worker said who it is")
	}
	if err != nil {
		return err
	}
	w := first.GetWorker()
	if err := checkWorker(w); err != nil {
		return s.refused(ctx, err, auditlog.Entry{Method: "ClaimRun", Dataset: w.GetDataset()})
	}
	if _, err := s.dataset(w.GetDataset()); err != nil {
		return s.refused(ctx, err, auditlog.Entry{Method: "ClaimRun", Dataset: w.GetDataset()})
	}
	// From here on one goroutine receives. It ends with the stream, which ends with this call.
	received := make(chan *conclavev1.RunProgress)
	left := make(chan error, 1)
	gone, leave := context.WithCancel(ctx)
	defer leave()
	s.streams.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				left <- err
				leave()
				return
			}
			select {
			case received <- m.GetProgress():
			case <-gone.Done():
			}
		}
	})
	session := peer.SessionOf(ctx)
	var claim *queue.Claim
	if w.GetClaim() != "" {
		if claim = s.queue.Resume(w.GetRun(), w.GetClaim(), session.Identity.Name); claim == nil {
			return s.sendEnded(stream, w.GetRun())
		}
	} else if claim, err = s.queue.Next(gone, session, w); errors.Is(err, queue.ErrLeft) {
		return nil
	} else if err != nil {
		return err
	}
	defer claim.Disconnect()
	claimed, err := claim.Claimed(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&conclavev1.ClaimRunResponse{Message: &conclavev1.ClaimRunResponse_Claimed{Claimed: claimed}})
	if err != nil {
		return err
	}
	for {
		select {
		case p := <-received:
			if p != nil {
				claim.Report(p)
			}
		case err := <-left:
			if errors.Is(err, io.EOF) {
				return claim.GiveBack(session.Caller)
			}
			return err
		case <-claim.Ended():
			return s.sendEnded(stream, claim.Record.Name)
		case <-s.draining.Done():
			return context.Cause(s.draining)
		}
	}
}

// sendEnded tells a worker that a run is not its own.
func (s *runService) sendEnded(stream conclavev1.RunService_ClaimRunServer, run string) error {
	ended := &conclavev1.ClaimRunResponse_Ended{Ended: s.queue.Ended(run)}
	return stream.Send(&conclavev1.ClaimRunResponse{Message: ended})
}
