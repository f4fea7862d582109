package student

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/dial"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

const (
	// reportEvery is the shortest interval between progress messages, heartbeat the longest.
	reportEvery = 500 * time.Millisecond
	heartbeat   = 5 * time.Second
	// leaveWithin bounds how long returning a run waits for the aggregator, which notices a lost worker in any case.
	leaveWithin = 5 * time.Second
	// claimKey is the metadata key that carries the claim of a run's worker.
	claimKey = "conclave-claim"
)

// Held is a run that this worker has, until it is finished or returned, or its context ends.
type Held struct {
	Run *conclavev1.ClaimedRun

	queue  *Queue
	worker *conclavev1.Worker // identity for reopening the stream
	client *Client

	ctx     context.Context
	end     context.CancelCauseFunc
	stream  context.Context // of the stream
	drop    context.CancelFunc
	leaving chan struct{}
	leave   sync.Once
	kept    sync.WaitGroup
	told    bool // the aggregator knows that the worker left; read when kept is done

	mu       sync.Mutex
	progress *conclavev1.RunProgress
}

// LostError says that the worker no longer has a run.
type LostError struct {
	// State is the final state; waiting or running if another worker has or will get the run.
	State  conclavev1.RunState
	Reason string
}

func (e *LostError) Error() string {
	if e.State == conclavev1.RunState_RUN_STATE_CANCELLED {
		return "the run was cancelled: " + e.Reason
	}
	return "the run is no longer this worker's: " + e.Reason
}

// Claim waits for a run of the worker's dataset and takes it. After a first answer it waits without limit while the
// aggregator is away.
func (q *Queue) Claim(ctx context.Context, worker *conclavev1.Worker) (*Held, error) {
	h := &Held{queue: q, leaving: make(chan struct{})}
	// The stream outlives ctx, so that the run can be returned when ctx ends.
	h.stream, h.drop = context.WithCancel(context.WithoutCancel(ctx))
	waiting := context.AfterFunc(ctx, func() { time.AfterFunc(leaveWithin, h.drop) })
	var stream rpc.RunService_ClaimRunClient
	err := q.retry(ctx, "wait for a run", func() (err error) {
		stream, h.Run, err = q.claim(h.stream, ctx, worker)
		return err
	})
	if err != nil {
		h.drop()
		return nil, err
	}
	h.ctx, h.end = context.WithCancelCause(context.WithoutCancel(ctx))
	h.worker = &conclavev1.Worker{Dataset: worker.GetDataset(), Name: worker.GetName(), Run: h.Run.GetName(),
		Claim: h.Run.GetClaim()}
	c := *q.Client
	c.api = rpc.NewStudentServiceClient(claimedConn{c.conn, h.Run.GetClaim()})
	h.client = &c
	h.kept.Go(func() { h.keep(stream) })
	if !waiting() { // ctx ended at the same time
		h.GiveBack()
		return nil, ctx.Err()
	}
	return h, nil
}

// claim opens a stream and waits for a run. When waiting ends, it closes the stream properly: a run that arrives
// at that moment goes back at once and does not count as lost.
func (q *Queue) claim(ctx, waiting context.Context,
	worker *conclavev1.Worker) (rpc.RunService_ClaimRunClient, *conclavev1.ClaimedRun, error) {
	stream, err := q.runs.ClaimRun(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := stream.Send(&conclavev1.ClaimRunRequest{
		Message: &conclavev1.ClaimRunRequest_Worker{Worker: worker},
	}); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	closed := make(chan struct{})
	stays := context.AfterFunc(waiting, func() {
		defer close(closed)
		_ = stream.CloseSend()
	})
	defer func() {
		if !stays() { // nobody else may send meanwhile
			<-closed
		}
	}()
	m, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil, status.Error(codes.Unavailable, "the aggregator gave no run")
	case err != nil:
		return nil, nil, err
	case m.GetEnded() != nil:
		return nil, nil, &LostError{m.GetEnded().GetState(), m.GetEnded().GetReason()}
	case m.GetClaimed() == nil:
		return nil, nil, status.Error(codes.Internal, "the aggregator sent neither a run nor its end")
	}
	return stream, m.GetClaimed(), nil
}

// Context ends when the worker loses the run; its cause is then a [*LostError], or matches [ErrCertificate].
func (h *Held) Context() context.Context { return h.ctx }

// Client makes calls for the run, with its claim. It ends with the queue's client.
func (h *Held) Client() *Client { return h.client }

// Report sets the run's progress. The newest state is sent at intervals.
func (h *Held) Report(p *conclavev1.RunProgress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress = p
}

func (h *Held) newest() *conclavev1.RunProgress {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.progress
}

// passing are the codes of temporary failures.
var passing = []codes.Code{
	codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown,
}

// keep keeps the run until it is finished, returned or lost.
func (h *Held) keep(stream rpc.RunService_ClaimRunClient) {
	pauses := dial.Pauses(h.queue.cfg.Retry)
	for {
		err := h.hold(stream)
		if err == nil {
			return
		}
		for err != nil {
			var lost *LostError
			switch {
			case errors.As(err, &lost):
				h.end(lost)
				return
			case h.stream.Err() != nil:
				return
			}
			select {
			case <-h.leaving: // the aggregator is away; the grace period ends by itself
				return
			default:
			}
			rest, code := dial.Again(err), status.Code(err)
			switch {
			case rest > 0, slices.Contains(passing, code):
			case code == codes.Unauthenticated:
				if err := h.queue.renewable(h.stream); err != nil {
					h.end(fmt.Errorf("keep the run's claim: %w", err))
					return
				}
			default:
				h.end(&LostError{Reason: dial.Message(err)})
				return
			}
			pause := max(rest, pauses.NextBackOff())
			h.queue.log.Warn("the aggregator does not answer; retrying",
				zap.String("to", "keep the run's claim"), zap.Duration("pause", pause), zap.Error(err))
			dial.Wait(h.stream, pause)
			stream, _, err = h.queue.claim(h.stream, h.stream, h.worker)
		}
		pauses.Reset()
	}
}

// errOver is the result of a stream that the aggregator ended normally.
var errOver = status.Error(codes.Unavailable, "the aggregator ended the stream")

// hold sends progress until the stream ends, and returns the reason; nil if the worker left.
func (h *Held) hold(stream rpc.RunService_ClaimRunClient) error {
	over := make(chan error, 1)
	go func() {
		for {
			m, err := stream.Recv()
			if e := m.GetEnded(); e != nil {
				err = &LostError{e.GetState(), e.GetReason()}
			}
			if errors.Is(err, io.EOF) {
				err = errOver
			}
			if err != nil {
				over <- err
				return
			}
		}
	}()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var sent *conclavev1.RunProgress
	var last time.Time
	for {
		select {
		case err := <-over:
			return err
		case <-h.leaving:
			_ = stream.CloseSend()
			err := <-over
			h.told = errors.Is(err, errOver) || errors.As(err, new(*LostError))
			return nil
		case <-tick.C:
		}
		p := h.newest()
		if proto.Equal(p, sent) && time.Since(last) < heartbeat {
			continue
		}
		if p == nil {
			p = &conclavev1.RunProgress{}
		}
		if err := stream.Send(&conclavev1.ClaimRunRequest{
			Message: &conclavev1.ClaimRunRequest_Progress{Progress: p},
		}); err != nil {
			return <-over // it has the reason
		}
		sent, last = p, time.Now()
	}
}

// GiveBack returns the run to its place in the queue, and reports whether the aggregator was reached. If not, the
// aggregator takes the run back after the worker's grace period.
func (h *Held) GiveBack() (told bool) { return h.giveBack(leaveWithin) }

func (h *Held) giveBack(within time.Duration) (told bool) {
	h.leave.Do(func() { close(h.leaving) })
	h.release(within)
	return h.told
}

// Leave drops a run without telling the aggregator, which counts it as lost after the worker's grace period or
// when the worker returns.
func (h *Held) Leave() { h.release(0) }

// Confirm asks whether the worker still has the run; if not, the error is a [*LostError]. The context of a lost run
// may end later, and until then other calls fail as if the run were at fault.
func (h *Held) Confirm(ctx context.Context) error {
	lost := new(LostError)
	if errors.As(context.Cause(h.ctx), &lost) {
		return lost
	}
	shown, err := h.queue.Show(ctx, h.Run.GetName())
	r := shown.GetRun()
	switch {
	case errors.Is(err, ErrNotHeld):
		return &LostError{Reason: err.Error()}
	case err != nil:
		return err
	case r.GetState() != conclavev1.RunState_RUN_STATE_RUNNING:
		return &LostError{State: r.GetState(), Reason: r.GetReason()}
	case r.GetWorker() != h.worker.GetName():
		return &LostError{State: r.GetState(), Reason: fmt.Sprintf("worker %q has claimed it", r.GetWorker())}
	}
	return nil
}

// release ends the stream, at the latest after this time.
func (h *Held) release(within time.Duration) {
	patience := time.AfterFunc(within, h.drop)
	h.kept.Wait()
	patience.Stop()
	h.drop()
	h.end(context.Canceled)
}

// Finish reports how the run ended. If the worker no longer has the run, the error matches [ErrRefused].
func (h *Held) Finish(ctx context.Context, state conclavev1.RunState, reason string,
	results []*conclavev1.RunResult) error {
	request := &conclavev1.FinishRunRequest{Run: h.Run.GetName(), Claim: h.Run.GetClaim(), State: state, Reason: reason,
		Results: results}
	err := h.queue.retry(ctx, "report how the run ended", func() error {
		_, err := h.queue.runs.FinishRun(ctx, request)
		return err
	})
	if err != nil && ctx.Err() != nil {
		h.GiveBack()
		return fmt.Errorf("%w; the next worker of the run reports it again", err)
	}
	h.release(0)
	return err
}

// claimedConn sends a claim with every call.
type claimedConn struct {
	grpc.ClientConnInterface
	claim string
}

func (c claimedConn) Invoke(ctx context.Context, method string, q, r any, o ...grpc.CallOption) error {
	return c.ClientConnInterface.Invoke(metadata.AppendToOutgoingContext(ctx, claimKey, c.claim), method, q, r, o...)
}

func (c claimedConn) NewStream(ctx context.Context, d *grpc.StreamDesc, method string,
	o ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(metadata.AppendToOutgoingContext(ctx, claimKey, c.claim), d, method, o...)
}
