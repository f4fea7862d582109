package cluster

import (
	"context"

	"github.com/conclave-dp/conclave/internal/requester"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Aggregator answers the pages' requests.
type Aggregator interface {
	List(ctx context.Context, dataset string) ([]*conclavev1.RunStatus, []*conclavev1.DatasetBudget, error)
	Nodes(ctx context.Context) ([]*conclavev1.NodeStatus, error)
	Show(ctx context.Context, run string) (*conclavev1.ShowRunResponse, error)
	Watch(ctx context.Context, run string, tell func(*conclavev1.WatchRunResponse)) (*conclavev1.RunStatus, error)
	Cancel(ctx context.Context, run string, force bool) (*conclavev1.RunStatus, error)
	Remove(ctx context.Context, run string) error
	Ledger(ctx context.Context, run string) ([][]byte, error)
	// SubmitFile is [requester.Submit], and FetchBundle the method Fetch of a [requester.Fetching].
	SubmitFile(ctx context.Context, path string, overcommit bool) (*conclavev1.SubmitRunResponse, error)
	FetchBundle(ctx context.Context, f requester.Fetching) (requester.Fetched, error)
}

// asked is an aggregator behind a connection.
type asked struct {
	*student.Queue
	dataset string
}

// SubmitFile queues the run of a file.
func (a asked) SubmitFile(ctx context.Context, path string, overcommit bool) (*conclavev1.SubmitRunResponse, error) {
	return requester.Submit(ctx, a.Queue, a.dataset, path, overcommit)
}

// FetchBundle fetches a run's bundle.
func (a asked) FetchBundle(ctx context.Context, f requester.Fetching) (requester.Fetched, error) {
	return f.Fetch(ctx, a.Queue)
}
