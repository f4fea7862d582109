package student

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Fetch gets the bundle of a finished run of this student. begin gets its size in bytes each time that the
// transfer starts from the beginning, and returns the destination. The error matches [ErrNotHeld] if the student
// submitted no such run, and [ErrRefused] if the bundle is not available now. Fetch does not verify the bundle.
func (q *Queue) Fetch(ctx context.Context, run string, begin func(bytes int64) (io.Writer, error)) error {
	var own error // a local error, which no aggregator can fix
	err := q.retry(ctx, "fetch the run", func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := q.runs.FetchRun(ctx, &conclavev1.FetchRunRequest{Run: run})
		if err != nil {
			return err
		}
		first, err := stream.Recv()
		if errors.Is(err, io.EOF) || err == nil && first.GetSize() == nil {
			return status.Error(codes.FailedPrecondition, "the aggregator sent no bundle")
		}
		if err != nil {
			return err
		}
		q.met.Store(true)
		left := int64(first.GetSize().GetBytes())
		to, err := begin(left)
		if err != nil {
			own = err
			return nil
		}
		for {
			m, err := stream.Recv()
			left -= int64(len(m.GetChunk()))
			switch {
			case errors.Is(err, io.EOF) && left == 0:
				return nil
			case errors.Is(err, io.EOF) || left < 0 || err == nil && len(m.GetChunk()) == 0:
				return status.Error(codes.FailedPrecondition, "the received bundle does not have the announced size; "+
					"fetch it again")
			case err != nil:
				return err
			}
			if _, err := to.Write(m.GetChunk()); err != nil {
				own = fmt.Errorf("write the received bundle: %w", err)
				return nil
			}
		}
	})
	return errors.Join(err, own)
}
