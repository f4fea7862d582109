package aggregator

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// states are those of runs on the wire.
var states = map[coordinator.State]conclavev1.RunState{
	coordinator.Waiting:     conclavev1.RunState_RUN_STATE_WAITING,
	coordinator.Running:     conclavev1.RunState_RUN_STATE_RUNNING,
	coordinator.Done:        conclavev1.RunState_RUN_STATE_DONE,
	coordinator.OutOfBudget: conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET,
	coordinator.Failed:      conclavev1.RunState_RUN_STATE_FAILED,
	coordinator.Cancelled:   conclavev1.RunState_RUN_STATE_CANCELLED,
}

const (
	// listPage is the number of runs in one message.
	listPage = 500
	// watchEvery is how often a watched run's rounds are looked at, besides at changes of
	// its state.
	watchEvery = time.Second
	watchRest  = 100 * time.Millisecond
)

// statusOf is how a run of the queue stands, with what the ledger has of it.
func (s *Server) statusOf(ctx context.Context, e queued) (*conclavev1.RunStatus, error) {
	r, err := s.store.Run(ctx, e.record.Name)
	if err != nil && !isNoRun(err) {
		return nil, err
	}
	status := statusOfQueued(e, r)
	status.Place = s.place(e.record)
	return status, nil
}

func statusOfQueued(e queued, r coordinator.Run) *conclavev1.RunStatus {
	q := e.record
	status := &conclavev1.RunStatus{
		Name: q.Name, Dataset: q.Dataset, State: states[q.State], Reason: q.Reason, Pipeline: q.Pipeline,
		Epsilon: q.Budget.Epsilon, Delta: q.Budget.Delta, EpsilonSpent: r.EpsilonSpent, Rounds: r.Releases, Teachers: teachersOf(q.Spec),
		Queued: true, By: q.By, Submitted: q.Submitted,
		Worker: q.Worker, Holder: q.Holder, Connected: e.stream != nil, Claims: q.Claims, Claimed: q.Claimed, Ended: q.Ended,
		LedgerHead: r.Head, Opened: r.Name != "", Closed: r.Closed,
	}
	if e.note != "" && q.State == coordinator.Waiting {
		status.Reason = e.note
	}
	if q.State == coordinator.Running && e.stream == nil {
		status.Reason = "its worker is not connected"
	}
	for _, f := range q.Results {
		status.Results = append(status.Results, &conclavev1.RunResult{Name: f.Name, Path: f.Path, Sha256: f.SHA256})
	}
	return status
}

// statusOfRun is how a run stands that a student opened itself. The ledger tells whether it is open.
func statusOfRun(r coordinator.Run) *conclavev1.RunStatus {
	status := &conclavev1.RunStatus{
		Name: r.Name, Dataset: r.Dataset, State: conclavev1.RunState_RUN_STATE_RUNNING,
		Epsilon: r.Budget.Epsilon, Delta: r.Budget.Delta, EpsilonSpent: r.EpsilonSpent, Rounds: r.Releases, Teachers: teachersOf(r.Spec),
		By: r.By, Submitted: r.Opened, LedgerHead: r.Head, Opened: true, Closed: r.Closed,
	}
	spec := new(conclavev1.RunSpec)
	if proto.Unmarshal(r.Spec, spec) == nil {
		status.Pipeline = cleaned(spec.GetPipeline())
	}
	if r.Closed {
		status.State = conclavev1.RunState_RUN_STATE_DONE
	}
	return status
}

func teachersOf(raw []byte) uint32 {
	spec := new(conclavev1.RunSpec)
	if proto.Unmarshal(raw, spec) != nil {
		return 0
	}
	return spec.GetTeachers()
}

// place counts the runs of the dataset that wait up to a run.
func (s *Server) place(q coordinator.Submission) (place uint32) {
	if q.State != coordinator.Waiting {
		return 0
	}
	for _, e := range s.queue.list(q.Dataset) {
		if e.record.State == coordinator.Waiting && e.record.Order <= q.Order {
			place++
		}
	}
	return place
}

// budgetOf is how the budget of a dataset stands, and what one more run of a delta could have.
func (s *Server) budgetOf(ctx context.Context, d *dataset, delta float64) (*conclavev1.DatasetBudget, float64, error) {
	queued := s.inQueue(d.record.Name, coordinator.Waiting, coordinator.Running)
	room, err := s.store.Room(ctx, d.record.Name)
	if err != nil {
		return nil, 0, err
	}
	b := room.Budget
	waiting := room.Unopened(queued)
	reserved, err := room.Reserved(waiting...)
	if err != nil {
		return nil, 0, err
	}
	budget := &conclavev1.DatasetBudget{
		Dataset: d.record.Name, Epsilon: b.Epsilon, Delta: b.Delta, Filter: string(b.Filter),
		Open: uint32(len(room.Open)), Waiting: uint32(len(waiting)), Workers: uint32(s.queue.workers(d.record.Name)),
	}
	if budget.Filter == "" {
		budget.Filter = "gdp"
	}
	if budget.EpsilonSpent, err = b.Filter.Epsilon(room.Spent, b.Delta); err != nil {
		return nil, 0, err
	}
	if budget.EpsilonReserved, err = b.Taken(reserved); err != nil {
		return nil, 0, err
	}
	if budget.EpsilonLeft, err = b.Left(reserved, b.Delta); err != nil {
		return nil, 0, err
	}
	left, err := b.Left(reserved, delta)
	return budget, left, err
}

// ListRuns sends all runs and the datasets' budgets.
func (s *runService) ListRuns(q *conclavev1.ListRunsRequest, stream grpc.ServerStreamingServer[conclavev1.ListRunsResponse]) error {
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
		d := s.datasets[name]
		opened, err := s.store.Runs(ctx, name)
		if err != nil {
			return err
		}
		byName := map[string]coordinator.Run{}
		for _, r := range opened {
			byName[r.Name] = r
		}
		place := uint32(0)
		for _, e := range s.queue.list(name) {
			status := statusOfQueued(e, byName[e.record.Name])
			if e.record.State == coordinator.Waiting {
				place++
				status.Place = place
			}
			all = append(all, status)
			delete(byName, e.record.Name)
		}
		for _, r := range opened {
			if _, direct := byName[r.Name]; direct {
				all = append(all, statusOfRun(r))
			}
		}
		budget, _, err := s.budgetOf(ctx, d, d.record.Budget.Delta)
		if err != nil {
			return err
		}
		last.Budgets = append(last.Budgets, budget)
	}
	slices.SortStableFunc(all, func(a, b *conclavev1.RunStatus) int { return strings.Compare(a.GetSubmitted(), b.GetSubmitted()) })
	for len(all) > listPage {
		if err := stream.Send(&conclavev1.ListRunsResponse{Runs: all[:listPage]}); err != nil {
			return err
		}
		all = all[listPage:]
	}
	last.Runs = all
	return stream.Send(last)
}

// find returns how a run stands, of the queue or not.
func (s *Server) find(ctx context.Context, name string) (*conclavev1.RunStatus, *conclavev1.RunProgress, error) {
	if err := checkName("run", name); err != nil {
		return nil, nil, err
	}
	if e, ok := s.queue.get(name); ok {
		status, err := s.statusOf(ctx, e)
		return status, e.progress, err
	}
	r, err := s.store.Run(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	return statusOfRun(r), nil, nil
}

// ShowRun returns one run.
func (s *runService) ShowRun(ctx context.Context, q *conclavev1.ShowRunRequest) (*conclavev1.ShowRunResponse, error) {
	status, progress, err := s.find(ctx, q.GetRun())
	if err != nil {
		return nil, err
	}
	r := &conclavev1.ShowRunResponse{Run: status, Progress: progress}
	if e, ok := s.queue.get(q.GetRun()); ok {
		if r.RunYaml, _, err = s.store.SubmittedFiles(ctx, e.record); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// WatchRun tells how a run stands until it has ended.
func (s *runService) WatchRun(q *conclavev1.WatchRunRequest, stream grpc.ServerStreamingServer[conclavev1.WatchRunResponse]) error {
	ctx := stream.Context()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	var last *conclavev1.WatchRunResponse
	for {
		changed := s.queue.awaitChange()
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
