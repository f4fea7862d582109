package service

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/queue"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// claimBurst bounds how many runs the workers of a certificate may ask for at once; after that, one per claimEvery.
// Taking and returning a run is written to etcd and the audit log. Resuming a run writes nothing and is not limited:
// thousands may resume at once, or they lose their runs.
const (
	claimBurst = 2500
	claimEvery = time.Second
)

// ClaimRun gives a worker a run, which the worker keeps until either side lets go.
func (s *runs) ClaimRun(stream rpc.RunService_ClaimRunServer) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return fault.Invalidf("the stream ended before the worker sent its name")
	}
	if err != nil {
		return err
	}
	w := first.GetWorker()
	if err := checkWorker(w); err != nil {
		return s.refused(ctx, err, auditlog.Entry{Method: "ClaimRun", Dataset: w.GetDataset()})
	}
	session := peer.SessionOf(ctx)
	d, err := s.Rounds.Dataset(w.GetDataset())
	if err == nil && !d.Workers.Has(session.Identity.Name) {
		err = notWorker(session.Identity.Name, d)
	}
	if err == nil && w.GetClaim() == "" {
		err = s.claims.Check(session.Identity, "asked for too many runs")
	}
	if err != nil {
		return s.refused(ctx, err, auditlog.Entry{Method: "ClaimRun", Dataset: w.GetDataset()})
	}
	// From here on one goroutine receives. It ends with the stream, which ends with this call.
	done := make(chan struct{})
	defer close(done)
	received, left := make(chan *conclavev1.ClaimRunRequest), make(chan error, 1)
	gone, leave := context.WithCancel(ctx)
	s.Lifetime.Streams.Go(func() {
		defer leave()
		left <- transport.Receive(stream, received, done)
	})
	var claim *queue.Claim
	if w.GetClaim() != "" {
		if claim = s.Queue.Resume(w.GetRun(), w.GetClaim(), session.Identity.Name); claim == nil {
			return s.sendEnded(stream, w.GetRun())
		}
	} else if claim, err = s.Queue.Next(gone, session, w); errors.Is(err, queue.ErrLeft) {
		return nil
	} else if err != nil {
		return err
	}
	defer claim.Disconnect()
	claimed, err := claim.Claimed(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&conclavev1.ClaimRunResponse{Message: &conclavev1.ClaimRunResponse_Claimed{Claimed: claimed}})
	if err != nil {
		return err
	}
	for {
		select {
		case m := <-received:
			if p := m.GetProgress(); p != nil {
				claim.Report(p)
			}
		case err := <-left:
			if errors.Is(err, io.EOF) {
				return claim.GiveBack(session.Caller)
			}
			return err
		case <-claim.Ended():
			return s.sendEnded(stream, claim.Record.Name)
		case <-s.Lifetime.Draining().Done():
			return context.Cause(s.Lifetime.Draining())
		}
	}
}

func notWorker(name string, d *round.Dataset) error {
	return fault.Deniedf("%q may not claim runs of dataset %q; the aggregator's configuration lists the workers "+
		"(datasets, workers)", name, d.Record.Name)
}

// sendEnded tells a worker that it no longer has a run.
func (s *runs) sendEnded(stream rpc.RunService_ClaimRunServer, run string) error {
	ended := &conclavev1.ClaimRunResponse_Ended{Ended: s.Queue.Ended(run)}
	return stream.Send(&conclavev1.ClaimRunResponse{Message: ended})
}
