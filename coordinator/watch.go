package coordinator

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/internal/privacy"
)

// Leader asks etcd who leads; the name is empty if nobody does. It is a probe: it waits for etcd no longer than the
// request's limit.
func (s *Store) Leader(ctx context.Context) (name string, err error) {
	kvs, _, err := s.read(ctx, "ask who leads", s.leaderKey())
	if err != nil || kvs[0] == nil {
		return "", err
	}
	record, err := decode[leaderRecord](kvs[0])
	return record.Name, err
}

// Spent returns what the runs of a dataset have spent together and may spend, according to its ledger. If the
// budget's filter is pld it admits nothing, because that needs the plan of the run.
func (s *Store) Spent(ctx context.Context, dataset string) (privacy.Spending, error) {
	if err := checkName("dataset", dataset); err != nil {
		return privacy.Spending{}, err
	}
	kvs, _, err := s.read(ctx, "read the spending", s.datasetKey(dataset))
	if err != nil {
		return privacy.Spending{}, err
	}
	if kvs[0] == nil {
		return privacy.Spending{}, fmt.Errorf("read the spending: %w: %q", ErrNoDataset, dataset)
	}
	record, err := decode[datasetRecord](kvs[0])
	return privacy.DatasetSpending(record.Budget, record.Spent, nil), err
}

// observed times requests.
func observed(observe func(string, time.Duration, error)) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, q, r any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption) error {
		began := time.Now()
		err := invoke(ctx, method, q, r, conn, options...)
		observe(method, time.Since(began), err)
		return err
	}
}
