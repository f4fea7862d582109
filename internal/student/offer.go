package student

import (
	"context"
	"errors"
	"io"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const (
	// chunkBytes is the size of a bundle's chunk, the largest that an aggregator accepts.
	chunkBytes = 256 << 10
	// givenAtOnce bounds a worker's concurrent bundles. No aggregator asks for more.
	givenAtOnce = 4
)

// Send sends a bundle of this many bytes, produced by write.
type Send func(bytes int64, write func(io.Writer) error) error

// Give sends a finished run with one call of send. An error without such a call says why there is nothing to send.
type Give func(run string, send Send) error

// Offer offers finished runs of the dataset until ctx ends, or the aggregator does not support it. give is called for
// each wanted run, concurrently; all calls have returned when Offer does.
func (q *Queue) Offer(ctx context.Context, process string, give Give) error {
	var giving errgroup.Group
	giving.SetLimit(givenAtOnce)
	defer giving.Wait() //nolint:errcheck // it has none
	return q.retry(ctx, "send runs", func() error {
		stream, err := q.runs.OfferRuns(ctx, &conclavev1.OfferRunsRequest{Dataset: q.cfg.Dataset, Process: process})
		if err != nil {
			return err
		}
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return errOver
			}
			if err != nil {
				return err
			}
			q.met.Store(true)
			giving.Go(func() error {
				log := q.log.With(zap.String("run", m.GetWanted().GetRun()))
				if err := q.give(ctx, m.GetWanted(), give); err != nil {
					log.Warn("run not sent", zap.Error(err))
				} else {
					log.Info("run sent")
				}
				return nil
			})
		}
	})
}

// give sends one run, or why there is nothing to send.
func (q *Queue) give(ctx context.Context, wanted *conclavev1.WantedRun, give Give) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := q.runs.SendRun(ctx)
	if err != nil {
		return err
	}
	begun := false
	err = give(wanted.GetRun(), func(bytes int64, write func(io.Writer) error) error {
		begun = true
		size := &conclavev1.BundleSize{Bytes: uint64(bytes)}
		if err := stream.Send(&conclavev1.SendRunRequest{
			Fetch: wanted.GetFetch(), Message: &conclavev1.SendRunRequest_Size{Size: size},
		}); err != nil {
			return err
		}
		c := &chunks{stream: stream, next: make([]byte, 0, chunkBytes)}
		return errors.Join(write(c), c.flush())
	})
	if err != nil && !begun {
		if failed := stream.Send(&conclavev1.SendRunRequest{
			Fetch: wanted.GetFetch(), Message: &conclavev1.SendRunRequest_Nothing{Nothing: err.Error()},
		}); failed != nil {
			return errors.Join(err, failed)
		}
	}
	if err != nil && begun {
		return err // the stream breaks, and the recipient is told
	}
	if closed := stream.CloseSend(); closed != nil {
		return errors.Join(err, closed)
	}
	for { // the data is in flight until the aggregator ends the stream
		if _, over := stream.Recv(); over != nil {
			if errors.Is(over, io.EOF) {
				return err
			}
			return errors.Join(err, over)
		}
	}
}

// chunks sends written data in chunks, each on the aggregator's request.
type chunks struct {
	stream rpc.RunService_SendRunClient
	next   []byte
}

func (c *chunks) Write(p []byte) (n int, err error) {
	for n < len(p) {
		room := min(len(p)-n, cap(c.next)-len(c.next))
		c.next = append(c.next, p[n:n+room]...)
		n += room
		if len(c.next) == cap(c.next) {
			if err := c.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (c *chunks) flush() error {
	if len(c.next) == 0 {
		return nil
	}
	_, err := c.stream.Recv()
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Aborted, "the student no longer waits for the run")
	}
	if err != nil {
		return err
	}
	err = c.stream.Send(&conclavev1.SendRunRequest{Message: &conclavev1.SendRunRequest_Chunk{Chunk: c.next}})
	c.next = c.next[:0]
	return err
}
