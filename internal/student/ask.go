package student

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/parts"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// partSize keeps every message well under gRPC's default limit of 4 MiB.
const partSize = 1 << 20

// Asking is what a student sends to the aggregator with a round.
type Asking struct {
	// Forget: the student never asks the rounds below it again. Their answers are dropped once this round is
	// released, which saves space for thousands of large ones.
	Forget uint64
	// Hold asks for a round that selects by its own sums, after which the aggregator caches them. This works even
	// if the round was released before; the release stays the same.
	Hold bool
	// Reduced: the kind has a reducer. The round leaves no span: how long it takes depends on the
	// records.
	Reduced bool
}

// Ask sends a round and returns its release; it reconnects to the aggregator as often as needed. The round is
// serialized once, so that a repeated question has the same bytes. progress may be nil.
func (c *Client) Ask(
	ctx context.Context, r *conclavev1.Round, how Asking, progress func(*conclavev1.Progress),
) (release *conclavev1.Release, err error) {
	if !how.Reduced {
		spanned, span := c.tracer.Begin(ctx, "ask", tracing.About(c.cfg.Dataset, r.Run, r.Number, "")...)
		defer func() { span.End(failure(err)) }()
		ctx = tracing.Outgoing(spanned)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode round %d: %w", r.Number, err)
	}
	err = c.retry(ctx, fmt.Sprintf("ask round %d", r.Number), func() error {
		release, err = c.ask(ctx, r, raw, how, progress)
		return err
	})
	return release, err
}

// failure is a word for why a call failed, without names from the error.
func failure(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrOverBudget):
		return "budget"
	case errors.Is(err, ErrRefused):
		return "refused"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "failed"
}

func (c *Client) ask(
	ctx context.Context, r *conclavev1.Round, raw []byte, how Asking, progress func(*conclavev1.Progress),
) (*conclavev1.Release, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // frees the stream on every way out
	stream, err := c.api.Ask(ctx)
	if err != nil {
		return nil, err
	}
	total := (len(raw) + partSize - 1) / partSize
	for i := range total {
		err := stream.Send(&conclavev1.AskRequest{Forget: how.Forget, Hold: how.Hold, Part: &conclavev1.RoundPart{
			Run: r.Run, Round: r.Number, Part: uint32(i), Parts: uint32(total),
			Data: raw[i*partSize : min((i+1)*partSize, len(raw))],
		}})
		if errors.Is(err, io.EOF) {
			break // Recv has the reason
		}
		if err != nil {
			return nil, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var assembly parts.Release
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, status.Error(codes.Unavailable, "the aggregator ended the round without a release")
		}
		if err != nil {
			return nil, err
		}
		if p := m.GetProgress(); p != nil && progress != nil {
			c.met.Store(true)
			progress(p)
		}
		release, err := assembly.Add(m)
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		if release != nil {
			if release.Run != r.Run || release.Round != r.Number {
				return nil, status.Errorf(codes.FailedPrecondition, "the release is of round %d of run %q",
					release.Round, release.Run)
			}
			return release, nil
		}
	}
}
