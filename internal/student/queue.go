package student

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// Queue is the aggregator's queue of runs. Its calls wait for an unreachable aggregator like those of [Client],
// with the same errors.
type Queue struct {
	*Client
	runs rpc.RunServiceClient
}

// Queue returns the queue of runs at the client's aggregator.
func (c *Client) Queue() *Queue {
	return &Queue{Client: c, runs: rpc.NewRunServiceClient(c.conn)}
}

// Submit queues a run. If the budget has no room for it, the error matches [ErrOverBudget].
func (q *Queue) Submit(ctx context.Context,
	request *conclavev1.SubmitRunRequest) (response *conclavev1.SubmitRunResponse, err error) {
	err = q.retry(ctx, "submit the run", func() error {
		response, err = q.runs.SubmitRun(ctx, request)
		return err
	})
	return response, err
}

// List returns the runs of a dataset, oldest first, and the state of the budgets. An empty dataset means all.
func (q *Queue) List(ctx context.Context,
	dataset string) (runs []*conclavev1.RunStatus, budgets []*conclavev1.DatasetBudget, err error) {
	err = q.retry(ctx, "list the runs", func() error {
		runs, budgets = nil, nil
		stream, err := q.runs.ListRuns(ctx, &conclavev1.ListRunsRequest{Dataset: dataset})
		if err != nil {
			return err
		}
		return each(stream, func(m *conclavev1.ListRunsResponse) {
			runs, budgets = append(runs, m.GetRuns()...), append(budgets, m.GetBudgets()...)
		})
	})
	return runs, budgets, err
}

// Show returns everything known about a run. If there is no run of this name, the error matches [ErrNotHeld].
func (q *Queue) Show(ctx context.Context, run string) (response *conclavev1.ShowRunResponse, err error) {
	err = q.retry(ctx, "show the run", func() error {
		response, err = q.runs.ShowRun(ctx, &conclavev1.ShowRunRequest{Run: run})
		return err
	})
	return response, err
}

// Cancel ends a run; with force, even one that did not come from the queue.
func (q *Queue) Cancel(ctx context.Context, run string, force bool) (*conclavev1.RunStatus, error) {
	var response *conclavev1.CancelRunResponse
	err := q.retry(ctx, "cancel the run", func() (err error) {
		response, err = q.runs.CancelRun(ctx, &conclavev1.CancelRunRequest{Run: run, Force: force})
		return err
	})
	return response.GetRun(), err
}

// Remove drops the stored data of a run that has ended.
func (q *Queue) Remove(ctx context.Context, run string) error {
	return q.retry(ctx, "remove the run", func() error {
		_, err := q.runs.RemoveRun(ctx, &conclavev1.RemoveRunRequest{Run: run})
		return err
	})
}

// Watch reports each change of a run's state, and returns the final one.
func (q *Queue) Watch(ctx context.Context, run string,
	tell func(*conclavev1.WatchRunResponse)) (last *conclavev1.RunStatus, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = q.retry(ctx, "watch the run", func() error {
		stream, err := q.runs.WatchRun(ctx, &conclavev1.WatchRunRequest{Run: run})
		if err != nil {
			return err
		}
		for {
			m, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF) && ended(last.GetState()):
				return nil
			case errors.Is(err, io.EOF):
				return status.Error(codes.Unavailable, "the aggregator ended the watch before the run ended")
			case err != nil:
				return err
			}
			q.met.Store(true)
			last = m.GetRun()
			tell(m)
		}
	})
	return last, err
}

func ended(s conclavev1.RunState) bool {
	switch s {
	case conclavev1.RunState_RUN_STATE_UNSPECIFIED, conclavev1.RunState_RUN_STATE_WAITING,
		conclavev1.RunState_RUN_STATE_RUNNING:
		return false
	}
	return true
}
