package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/relay"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// fetchBurst bounds how many runs a student may fetch at once; after that, one per fetchEvery. Each fetch makes a
// worker read its folder, and writes a line to the audit log.
const (
	fetchBurst = 30
	fetchEvery = 30 * time.Second
)

// FetchRun passes a run's bundle from its worker to its submitter.
func (s *runs) FetchRun(q *conclavev1.FetchRunRequest,
	stream grpc.ServerStreamingServer[conclavev1.FetchRunResponse]) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	draining := s.Lifetime.Draining()
	defer context.AfterFunc(draining, func() { cancel(context.Cause(draining)) })()
	return s.refused(stream.Context(), s.fetchRun(ctx, q.GetRun(), stream),
		auditlog.Entry{Method: "FetchRun", Run: q.GetRun()})
}

func (s *runs) fetchRun(ctx context.Context, run string,
	stream grpc.ServerStreamingServer[conclavev1.FetchRunResponse]) error {
	session := peer.SessionOf(ctx)
	if err := spec.CheckName("run", run); err != nil {
		return err
	}
	if err := s.fetches.Check(session.Identity, "fetched too many runs"); err != nil {
		return err
	}
	found, err := s.Queue.Fetchable(run, session.Identity)
	if err != nil {
		return err
	}
	leave, err := s.Relay.Enter(session.Identity.String())
	if err != nil {
		return err
	}
	defer leave()
	if err := s.Rounds.Room.Take(session.Identity.Name, relay.Room); err != nil {
		return err
	}
	defer s.Rounds.Room.Give(session.Identity.Name, relay.Room)
	t, err := s.Relay.Open(ctx, found)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := s.Audit.Write(session.Caller, auditlog.Entry{
		Event: auditlog.RunFetched, Dataset: found.Dataset, Run: run,
		Reason: fmt.Sprintf("%d bytes of worker %s", t.Bytes, found.Worker),
	}); err != nil {
		return peer.ErrAudit
	}
	return s.pass(ctx, t, stream)
}

// pass transfers a bundle.
func (s *runs) pass(ctx context.Context, t *relay.Transfer,
	stream grpc.ServerStreamingServer[conclavev1.FetchRunResponse]) error {
	size := &conclavev1.BundleSize{Bytes: uint64(t.Bytes)}
	err := s.sendInTime(ctx, stream, &conclavev1.FetchRunResponse{
		Message: &conclavev1.FetchRunResponse_Size{Size: size}})
	for err == nil {
		var chunk []byte
		if chunk, err = t.Next(ctx); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.sendInTime(ctx, stream, &conclavev1.FetchRunResponse{
				Message: &conclavev1.FetchRunResponse_Chunk{Chunk: chunk}})
		}
		if err == nil {
			t.Passed()
		}
	}
	return err
}

// sendInTime sends a message to a peer that reads. If the peer does not read, gRPC keeps the message until the
// connection ends, whatever happens to the call, so the connection is closed, too.
func (s *runs) sendInTime(ctx context.Context, stream grpc.ServerStreamingServer[conclavev1.FetchRunResponse],
	m *conclavev1.FetchRunResponse) error {
	sent := make(chan error, 1)
	s.Lifetime.Streams.Go(func() { sent <- stream.Send(m) })
	patience := time.NewTimer(s.Relay.Patience)
	defer patience.Stop()
	var err error
	select {
	case err := <-sent:
		return err
	case <-patience.C:
		err = fault.Refusedf("the recipient read nothing for %v; fetch it again", s.Relay.Patience)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	peer.SessionOf(ctx).HangUp()
	<-sent
	return err
}

// OfferRuns tells a worker which of its finished runs are wanted.
func (s *runs) OfferRuns(q *conclavev1.OfferRunsRequest,
	stream grpc.ServerStreamingServer[conclavev1.OfferRunsResponse]) error {
	ctx := stream.Context()
	offer, err := s.offer(ctx, q)
	if err != nil {
		return s.refused(ctx, err, auditlog.Entry{Method: "OfferRuns", Dataset: q.GetDataset()})
	}
	defer s.Relay.Withdraw(offer)
	if err := stream.SendHeader(nil); err != nil { // the worker is registered from now on
		return err
	}
	for {
		select {
		case w := <-offer.Wanted():
			if err := stream.Send(&conclavev1.OfferRunsResponse{Wanted: w}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.Lifetime.Draining().Done():
			return context.Cause(s.Lifetime.Draining())
		}
	}
}

func (s *runs) offer(ctx context.Context, q *conclavev1.OfferRunsRequest) (*relay.Offer, error) {
	if err := spec.CheckName("process", q.GetProcess()); err != nil {
		return nil, err
	}
	by := peer.SessionOf(ctx).Identity.Name
	d, err := s.Rounds.Dataset(q.GetDataset())
	if err != nil {
		return nil, err
	}
	if !d.Workers.Has(by) {
		return nil, notWorker(by, d)
	}
	return s.Relay.Offer(relay.Source{Dataset: d.Record.Name, Holder: by, Process: q.GetProcess()})
}

// SendRun receives a bundle from a worker, one chunk for each message sent to it.
func (s *runs) SendRun(stream grpc.BidiStreamingServer[conclavev1.SendRunRequest, conclavev1.SendRunResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	t, err := s.Relay.Take(first.GetFetch(), peer.SessionOf(ctx).Identity.Name)
	if err != nil {
		return s.refused(ctx, err, auditlog.Entry{Method: "SendRun"})
	}
	defer t.Leave()
	select {
	case t.In() <- first:
	case <-t.Over():
		return nil
	}
	received := make(chan error, 1)
	s.Lifetime.Streams.Go(func() { received <- transport.Receive(stream, t.In(), t.Over()) })
	for {
		select {
		case <-t.More():
			if err := stream.Send(new(conclavev1.SendRunResponse)); err != nil {
				return err
			}
		case err := <-received:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-t.Over():
			return nil
		}
	}
}
