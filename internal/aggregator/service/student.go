package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/aggregator/transport"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/parts"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// partTimeout bounds the wait for the next part of a round: 1 MiB in this time is below 150 kbit/s.
const partTimeout = time.Minute

// A ledger is read in pages of this many entries. A run's entry is the largest, with some 16 KiB.
const (
	ledgerPage = 64
	ledgerRoom = ledgerPage * 16 << 10
)

// repeatBurst bounds how many stored releases a student may get again at once; after that, one per repeatEvery. A
// repeat is free but writes a line to the audit log. A student that restarts without its checkpoint asks for all
// rounds of its run again.
const (
	repeatBurst = 10_000
	repeatEvery = 500 * time.Millisecond
)

// signBurst bounds how many signed ledgers a student may read at once; after that, one per signEvery. Each asks all
// sites for a signature.
const (
	signBurst = 100
	signEvery = time.Second
)

type students struct {
	rpc.UnimplementedStudentServiceServer
	Options
	repeats *peer.Rates
	signs   *peer.Rates
}

func newStudents(o Options) *students {
	return &students{Options: o, repeats: peer.NewRates(cmp.Or(o.Repeats, repeatBurst), repeatEvery),
		signs: peer.NewRates(signBurst, signEvery)}
}

// OpenRun opens a run or finds it again.
func (s *students) OpenRun(ctx context.Context, q *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
	r, err := s.openRun(ctx, q)
	return r, s.refused(ctx, err,
		auditlog.Entry{Method: "OpenRun", Dataset: q.GetSpec().GetDataset(), Run: q.GetSpec().GetName()})
}

func (s *students) openRun(ctx context.Context, q *conclavev1.OpenRunRequest) (*conclavev1.OpenRunResponse, error) {
	run, err := spec.New(q.GetSpec())
	if err != nil {
		return nil, err
	}
	session, claim := peer.SessionOf(ctx), claimOf(ctx)
	raw, err := s.acceptable(ctx, run, claim != "")
	if err != nil {
		return nil, err
	}
	r, err := s.Rounds.Open(ctx, session, claim, run, raw)
	if err != nil {
		return nil, err
	}
	r.Aggregator = s.Name
	return r, nil
}

// acceptable returns the stored form of a spec if a run with it may be opened or queued now, by the caller or, for a
// claimed run, for the student that submitted it.
func (o *Options) acceptable(ctx context.Context, run *spec.Spec, claimed bool) ([]byte, error) {
	d, err := o.Rounds.Dataset(run.PB.GetDataset())
	if err != nil {
		return nil, err
	}
	student := peer.SessionOf(ctx).Identity.Name
	if !claimed && !d.Students.Has(student) {
		return nil, fault.Deniedf("student %q may not open runs on dataset %q; the aggregator's configuration lists "+
			"the students (datasets, students)", student, d.Record.Name)
	}
	if err := checkRun(run, d.Record, o.AllowCoin); err != nil {
		return nil, err
	}
	if err := o.pricing.price(ctx, student, run, d.Record); err != nil {
		return nil, fmt.Errorf("run %q: %w", run.PB.GetName(), err)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(run.PB)
	if err != nil {
		return nil, err
	}
	return raw, o.Audit.Check()
}

func checkRun(run *spec.Spec, d coordinator.Dataset, allowCoin bool) error {
	name := run.PB.GetName()
	switch {
	case run.PB.GetSchemaSha256() != d.SchemaSHA256:
		return fault.Refusedf("run %q has schema %s, dataset %q has %s; use the same schema file everywhere",
			name, run.PB.GetSchemaSha256(), d.Name, d.SchemaSHA256)
	case run.PB.GetUnit() != d.Unit:
		return fault.Refusedf("run %q protects unit %q, dataset %q unit %q; set the same unit everywhere",
			name, run.PB.GetUnit(), d.Name, d.Unit)
	case run.Budget.Overlap != d.Budget.Overlap:
		return fault.Refusedf("run %q assumes privacy units at up to %d sites, and those of dataset %q may be at up "+
			"to %d; set privacy.overlap: %d", name, run.Budget.Sites(), d.Name, d.Budget.Sites(), d.Budget.Sites())
	case run.PB.GetCoinVotes() && !allowCoin:
		return fault.Refusedf("run %q uses coin votes, which are for local runs only; open it without coin_votes", name)
	case run.Budget.Delta >= d.Budget.Delta && run.Budget.Epsilon > d.Budget.Epsilon:
		return fault.Refusedf("run %q asks for epsilon %v, and the whole budget of dataset %q is %v; lower the run's "+
			"epsilon",
			name, run.Budget.Epsilon, d.Name, d.Budget.Epsilon)
	}
	return nil
}

// Ask takes a round and waits for its release.
func (s *students) Ask(stream rpc.StudentService_AskServer) error {
	ctx := stream.Context()
	session := peer.SessionOf(ctx)
	p, err := s.receiveRound(stream)
	if err != nil {
		s.Metrics.Rounds.Refused(fault.Reason(err))
		return s.refused(ctx, err, auditlog.Entry{Method: "Ask"})
	}
	key := p.Key // p is freed as soon as the round has started
	e, release, err := s.Rounds.Enter(ctx, p, claimOf(ctx))
	s.Rounds.Room.Give(session.Identity.Name, p.Room)
	if err != nil {
		s.Metrics.Rounds.Refused(fault.Reason(err))
		if s.Audit.Refusal(session.Caller, err, auditlog.Entry{Method: "Ask", Run: key.Run, Round: &key.Number}) {
			s.Log.Warn("round refused", zap.String("run", fault.Printable(key.Run)), zap.Uint64("round", key.Number),
				zap.Error(err))
		}
		return err
	}
	if e != nil {
		defer e.Leave()
		release, err = e.Await(ctx, func(now *conclavev1.Progress) error {
			return stream.Send(&conclavev1.AskResponse{Message: &conclavev1.AskResponse_Progress{Progress: now}})
		})
		if err != nil {
			return err
		}
	}
	if e == nil || e.Asker() != session.Caller { // the release's line names another peer
		if err := s.repeats.Check(session.Identity, "asked for too many released rounds"); err != nil {
			return s.refused(ctx, err, auditlog.Entry{Method: "Ask", Run: key.Run, Round: &key.Number})
		}
		if err := s.Rounds.Repeated(session.Caller, key, release); err != nil {
			return err
		}
	}
	return s.sendRelease(stream, release)
}

// sendRelease sends a release, which takes room of its student until it is read.
func (s *students) sendRelease(stream rpc.StudentService_AskServer, release *conclavev1.Release) error {
	student, size := peer.SessionOf(stream.Context()).Identity.Name, proto.Size(release)
	size += min(size, 1<<20) // the part being sent is in memory twice
	if err := s.Rounds.Room.Take(student, size); err != nil {
		return err
	}
	defer s.Rounds.Room.Give(student, size)
	messages, err := parts.OfRelease(release)
	for _, m := range messages {
		if err = stream.Send(m); err != nil {
			break
		}
	}
	return err
}

// receiveRound assembles a round. Its size is reserved in the student's room; the caller releases what nobody took
// over.
func (s *students) receiveRound(stream rpc.StudentService_AskServer) (p *payload.Payload, err error) {
	student := peer.SessionOf(stream.Context()).Identity.Name
	var a payload.Assembly
	defer func() {
		if err != nil {
			s.Rounds.Room.Give(student, a.Size())
		}
	}()
	done := make(chan struct{})
	defer close(done)
	in, ended := make(chan *conclavev1.AskRequest), make(chan error, 1)
	s.Lifetime.Streams.Go(func() { ended <- transport.Receive(stream, in, done) })
	timeout := time.NewTimer(partTimeout)
	defer timeout.Stop()
	var first *conclavev1.AskRequest
	for !a.Complete() {
		var m *conclavev1.AskRequest
		select {
		case m = <-in:
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				parts, of := a.Progress()
				return nil, fault.Invalidf("the stream ended after %d of %d parts of the round", parts, of)
			}
			return nil, transport.Broken(err)
		case <-timeout.C:
			return nil, fault.Invalidf("no part of the round within %v", partTimeout)
		case <-s.Lifetime.Draining().Done():
			return nil, context.Cause(s.Lifetime.Draining())
		}
		timeout.Reset(partTimeout)
		if first == nil {
			first = m
		}
		bytes := len(m.GetPart().GetData())
		if err := s.Rounds.Room.Take(student, bytes); err != nil {
			return nil, err
		}
		if err := a.Add(m.GetPart()); err != nil {
			s.Rounds.Room.Give(student, bytes)
			return nil, err
		}
	}
	if p, err = a.Payload(); err != nil {
		return nil, err
	}
	p.Forget, p.Hold, p.Room = first.GetForget(), first.GetHold(), a.Size()
	if p.Forget > p.Key.Number {
		return nil, fault.Invalidf("round %d of run %q drops rounds below %d; it cannot drop itself",
			p.Key.Number, p.Key.Run, p.Forget)
	}
	return p, nil
}

// CloseRun ends a run.
func (s *students) CloseRun(ctx context.Context, q *conclavev1.CloseRunRequest) (*conclavev1.CloseRunResponse, error) {
	manifest := q.GetManifestSha256()
	if n := len(manifest); n != 0 && n != sha256.Size {
		return nil, s.refused(ctx, fault.Invalidf("manifest_sha256 has %d bytes; a SHA-256 has %d", n, sha256.Size),
			auditlog.Entry{Method: "CloseRun", Run: q.GetRun()})
	}
	head, sealed, err := s.Rounds.Close(ctx, peer.SessionOf(ctx), claimOf(ctx), q.GetRun(),
		hex.EncodeToString(manifest))
	if err == nil {
		manifest, err = hex.DecodeString(sealed)
	}
	if err != nil {
		return nil, s.refused(ctx, err, auditlog.Entry{Method: "CloseRun", Run: q.GetRun()})
	}
	s.Queue.Poke()
	return &conclavev1.CloseRunResponse{LedgerHead: head, ManifestSha256: manifest}, nil
}

// ReadLedger streams the ledger of a run's dataset.
func (s *students) ReadLedger(q *conclavev1.ReadLedgerRequest,
	stream rpc.StudentService_ReadLedgerServer) error {
	ctx := stream.Context()
	d, opener, err := s.Rounds.DatasetOf(ctx, q.GetRun())
	if err != nil {
		return err
	}
	if err := s.Queue.MayRead(q.GetRun(), opener, peer.SessionOf(ctx).Identity); err != nil {
		return s.refused(ctx, err, auditlog.Entry{Method: "ReadLedger", Run: q.GetRun()})
	}
	student := peer.SessionOf(ctx).Identity.Name
	if err := s.Rounds.Room.Take(student, ledgerRoom); err != nil {
		return err
	}
	defer s.Rounds.Room.Give(student, ledgerRoom)
	var signatures []*conclavev1.Signature
	last := uint64(math.MaxUint64)
	if q.GetSigned() {
		if err := s.signs.Check(peer.SessionOf(ctx).Identity, "asked for too many signed ledgers"); err != nil {
			return s.refused(ctx, err, auditlog.Entry{Method: "ReadLedger", Run: q.GetRun()})
		}
		head, all, err := s.Rounds.Countersigned(ctx, d)
		if err != nil {
			return err
		}
		signatures, last = all, head.Seq
	}
	for after := uint64(0); after < last; {
		lines, err := s.Store.Entries(ctx, d.Record.Name, after, int(min(ledgerPage, last-after)))
		if err != nil {
			return err
		}
		for _, line := range lines {
			if err := stream.Send(&conclavev1.ReadLedgerResponse{Entry: line}); err != nil {
				return err
			}
		}
		if len(lines) < ledgerPage {
			break
		}
		after += ledgerPage
	}
	for _, signature := range signatures {
		if err := stream.Send(&conclavev1.ReadLedgerResponse{Signature: signature}); err != nil {
			return err
		}
	}
	return nil
}
