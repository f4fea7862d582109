package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/certs"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const (
	// listPage bounds the runs in one message, in bytes.
	listPage = 1 << 20
	// watchEvery is how often a watched run's rounds are checked, apart from changes of its state.
	watchEvery = time.Second
	watchRest  = 100 * time.Millisecond
)

// runs serves the queue to students.
type runs struct {
	rpc.UnimplementedRunServiceServer
	Options
	claims, fetches *peer.Rates
}

// SubmitRun queues a run.
func (s *runs) SubmitRun(ctx context.Context, q *conclavev1.SubmitRunRequest) (
	*conclavev1.SubmitRunResponse, error) {
	r, err := s.submitRun(ctx, q)
	return r, s.refused(ctx, err,
		auditlog.Entry{Method: "SubmitRun", Dataset: q.GetSpec().GetDataset(), Run: q.GetSpec().GetName()})
}

func (s *runs) submitRun(ctx context.Context, q *conclavev1.SubmitRunRequest) (
	*conclavev1.SubmitRunResponse, error) {
	run, err := checkSubmission(q)
	if err != nil {
		return nil, err
	}
	session := peer.SessionOf(ctx)
	raw, err := s.acceptable(ctx, run, false)
	if err != nil {
		return nil, err
	}
	r, err := s.Queue.Submit(ctx, session.Caller, queued(session.Identity.Name, q, run, raw))
	if err == nil {
		r.Quorum = quorumNow(run, s.Rounds.Datasets[run.PB.GetDataset()])
	}
	return r, err
}

// quorumNow is what a run needs and who is connected. Its student would also learn this from the first round.
func quorumNow(run *spec.Spec, d *round.Dataset) *conclavev1.Quorum {
	if run.Masked == nil {
		return &conclavev1.Quorum{TeachersNeeded: run.Quorum, TeachersLive: d.Teachers()}
	}
	live := map[string]bool{}
	for _, n := range d.Live() {
		live[n.ID.Site] = true
	}
	q := &conclavev1.Quorum{SitesNeeded: uint32(run.Masked.Quorum)}
	for _, m := range run.Masked.Members {
		if live[m.Site] {
			q.SitesLive++
		}
	}
	return q
}

// CancelRun ends a run early.
func (s *runs) CancelRun(ctx context.Context, q *conclavev1.CancelRunRequest) (
	*conclavev1.CancelRunResponse, error) {
	status, err := s.cancelRun(ctx, q)
	if err != nil {
		return nil, s.refused(ctx, err, auditlog.Entry{Method: "CancelRun", Run: q.GetRun()})
	}
	return &conclavev1.CancelRunResponse{Run: status}, nil
}

func (s *runs) cancelRun(ctx context.Context, q *conclavev1.CancelRunRequest) (*conclavev1.RunStatus, error) {
	if err := spec.CheckName("run", q.GetRun()); err != nil {
		return nil, err
	}
	if err := s.Audit.Check(); err != nil {
		return nil, err
	}
	return s.Queue.Cancel(ctx, peer.SessionOf(ctx), q.GetRun(), q.GetForce())
}

// RemoveRun drops the stored data of a run that has ended.
func (s *runs) RemoveRun(ctx context.Context, q *conclavev1.RemoveRunRequest) (
	*conclavev1.RemoveRunResponse, error) {
	session := peer.SessionOf(ctx)
	err := spec.CheckName("run", q.GetRun())
	if err == nil {
		err = s.Audit.Check()
	}
	if err == nil {
		var removed coordinator.Run
		if removed, err = s.Queue.Remove(ctx, session.Identity, q.GetRun()); err == nil {
			s.Log.Info("run removed", zap.String("run", q.GetRun()), zap.Stringer("by", session.Identity))
			_ = s.Audit.Write(session.Caller, auditlog.Entry{
				Event: auditlog.RunRemoved, Dataset: removed.Dataset, Run: q.GetRun(),
			})
			return &conclavev1.RemoveRunResponse{}, nil
		}
	}
	return nil, s.refused(ctx, err, auditlog.Entry{Method: "RemoveRun", Run: q.GetRun()})
}

// FinishRun ends a run with its worker's outcome.
func (s *runs) FinishRun(ctx context.Context, q *conclavev1.FinishRunRequest) (
	*conclavev1.FinishRunResponse, error) {
	end, err := endOf(q)
	if err == nil {
		var status *conclavev1.RunStatus
		if status, err = s.Queue.Finish(ctx, peer.SessionOf(ctx), q.GetRun(), end); err == nil {
			return &conclavev1.FinishRunResponse{Run: status}, nil
		}
	}
	return nil, s.refused(ctx, err, auditlog.Entry{Method: "FinishRun", Run: q.GetRun()})
}

// ListRuns sends the caller's runs and the budgets of the datasets that it may use. Operators get all.
func (s *runs) ListRuns(q *conclavev1.ListRunsRequest,
	stream grpc.ServerStreamingServer[conclavev1.ListRunsResponse]) error {
	by := peer.SessionOf(stream.Context()).Identity
	// One list per certificate at a time, because a list stays in memory even if its caller does not read it.
	return s.listing.one(stream.Context(), by.String(), func() error { return s.list(q, by, stream) })
}

func (s *runs) list(q *conclavev1.ListRunsRequest, by certs.Identity,
	stream grpc.ServerStreamingServer[conclavev1.ListRunsResponse]) error {
	ctx := stream.Context()
	var names []string
	for name := range s.Rounds.Datasets {
		if q.GetDataset() == "" || q.GetDataset() == name {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		_, err := s.Rounds.Dataset(q.GetDataset())
		return err
	}
	slices.Sort(names)
	var all []*conclavev1.RunStatus
	last := &conclavev1.ListRunsResponse{}
	for _, name := range names {
		runs, err := s.Queue.List(ctx, name, by)
		if err != nil {
			return err
		}
		all = append(all, runs...)
		d := s.Rounds.Datasets[name]
		if by.Role != certs.RoleOperator && !d.Students.Has(by.Name) && !d.Workers.Has(by.Name) {
			continue // this caller may not see the dataset's spending or its times
		}
		budget, _, err := s.Queue.Budget(ctx, name, d.Record.Budget.Delta)
		if err != nil {
			return err
		}
		last.Budgets = append(last.Budgets, budget)
	}
	slices.SortStableFunc(all, func(a, b *conclavev1.RunStatus) int {
		return strings.Compare(a.GetSubmitted(), b.GetSubmitted())
	})
	return sendPages(all, last, stream.Send)
}

// sendPages sends runs in messages of bounded size; last is sent with the final one.
func sendPages(
	all []*conclavev1.RunStatus, last *conclavev1.ListRunsResponse, send func(*conclavev1.ListRunsResponse) error,
) error {
	size := 0
	for _, r := range all {
		if size += proto.Size(r); size > listPage {
			if err := send(&conclavev1.ListRunsResponse{Runs: last.Runs}); err != nil {
				return err
			}
			last.Runs, size = nil, proto.Size(r)
		}
		last.Runs = append(last.Runs, r)
	}
	return send(last)
}

// mayRead allows the status of a run only to operators and to the run's own student.
func (o *Options) mayRead(ctx context.Context, r *conclavev1.RunStatus) error {
	return o.Queue.MayRead(r.GetName(), r.GetBy(), peer.SessionOf(ctx).Identity)
}

// find returns a run's status if the caller may see it.
func (s *runs) find(ctx context.Context, run string) (*conclavev1.RunStatus, *conclavev1.RunProgress, error) {
	status, progress, err := s.Queue.Find(ctx, run)
	if err == nil {
		err = s.mayRead(ctx, status)
	}
	if err != nil {
		return nil, nil, err
	}
	return status, progress, nil
}

// ShowRun returns one run.
func (s *runs) ShowRun(ctx context.Context, q *conclavev1.ShowRunRequest) (*conclavev1.ShowRunResponse, error) {
	if err := spec.CheckName("run", q.GetRun()); err != nil {
		return nil, err
	}
	status, progress, err := s.find(ctx, q.GetRun())
	if err != nil {
		return nil, s.refused(ctx, err, auditlog.Entry{Method: "ShowRun", Run: q.GetRun()})
	}
	raw, err := s.Queue.RunFile(ctx, q.GetRun())
	return &conclavev1.ShowRunResponse{Run: status, Progress: progress, RunYaml: raw}, err
}

// WatchRun sends a run's status until the run has ended.
func (s *runs) WatchRun(q *conclavev1.WatchRunRequest,
	stream grpc.ServerStreamingServer[conclavev1.WatchRunResponse]) error {
	if err := spec.CheckName("run", q.GetRun()); err != nil {
		return err
	}
	ctx := stream.Context()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	var last *conclavev1.WatchRunResponse
	for {
		changed := s.Queue.Changed()
		status, progress, err := s.find(ctx, q.GetRun())
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
		case <-s.Lifetime.Stopping():
			return fault.ErrStopping
		}
		// Changes of other runs arrive here, too, and many of them need only one check.
		rest.Reset(watchRest)
		select {
		case <-rest.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
