package aggregator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// claimKey is the metadata in which calls about a run carry the claim of their worker.
	claimKey = "conclave-claim"
	// maxFolders bounds the runs that a worker names as begun.
	maxFolders = 1000
	// roomEvery is how often a run that waits for room is looked at, besides after changes.
	roomEvery = 5 * time.Second
)

// mayAsk refuses calls about a run of the queue by anybody but the worker that holds it.
// What has ended may be asked again as ever.
func (s *Server) mayAsk(ctx context.Context, run string) error {
	e, ok := s.queue.get(run)
	if !ok || e.record.State.Final() {
		return nil
	}
	if e.record.State == coordinator.Waiting {
		return refusedf("run %q waits in the queue; the worker that takes it asks for it", run)
	}
	if claimOf(ctx) != e.record.Claim {
		return refusedf("run %q is held by worker %q; only that one asks for it", run, e.record.Worker)
	}
	return nil
}

func claimOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, claimKey); len(values) == 1 {
		return values[0]
	}
	return ""
}

// ClaimRun gives a worker a run, and holds it for the worker until either lets go.
func (s *runService) ClaimRun(stream conclavev1.RunService_ClaimRunServer) error {
	ctx := stream.Context()
	by, holder := callerOf(ctx), peer.SessionOf(ctx).Identity.Name
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return invalidf("the stream ended before the worker said who it is")
	}
	if err != nil {
		return err
	}
	w := first.GetWorker()
	if err := checkWorker(w); err != nil {
		s.auditRefusal(by, err, auditlog.Entry{Method: "ClaimRun", Dataset: w.GetDataset()})
		return err
	}
	d, err := s.dataset(w.GetDataset())
	if err != nil {
		s.auditRefusal(by, err, auditlog.Entry{Method: "ClaimRun", Dataset: w.GetDataset()})
		return err
	}
	// From here on one goroutine receives. It ends with the stream, which ends with this call.
	received := make(chan *conclavev1.RunProgress)
	left := make(chan error, 1)
	gone, leave := context.WithCancel(ctx)
	defer leave()
	s.streams.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				left <- err
				leave()
				return
			}
			select {
			case received <- m.GetProgress():
			case <-gone.Done():
			}
		}
	})
	own := &claimStream{ended: make(chan struct{})}
	var record coordinator.Submission
	if w.GetClaim() != "" {
		e, ok := s.queue.get(w.GetRun())
		if !ok || e.record.Holder != holder || !s.queue.connect(w.GetRun(), w.GetClaim(), own) {
			return s.notHeld(stream, e, ok)
		}
		record = e.record
	} else {
		if record, err = s.nextRun(gone, d, w, holder, own); err != nil {
			if err == errLeft {
				return nil
			}
			return err
		}
		s.log.Info("run claimed", zap.String("run", record.Name), zap.String("worker", record.Worker), zap.Uint32("claims", record.Claims))
		_ = s.audit(by, auditlog.Entry{Event: auditlog.RunClaimed, Dataset: record.Dataset, Run: record.Name, Reason: "worker " + record.Worker})
	}
	defer s.queue.disconnect(record.Name, own)
	claimed, err := s.claimedRun(ctx, record)
	if err != nil {
		return err
	}
	if err := stream.Send(&conclavev1.ClaimRunResponse{Message: &conclavev1.ClaimRunResponse_Claimed{Claimed: claimed}}); err != nil {
		return err
	}
	for {
		select {
		case p := <-received:
			if p != nil {
				s.queue.report(record.Name, own, boundedProgress(p))
			}
		case err := <-left:
			if errors.Is(err, io.EOF) {
				return s.giveBack(by, record.Name, record.Claim, fmt.Sprintf("worker %q gave it back", record.Worker))
			}
			return err
		case <-own.ended:
			e, ok := s.queue.get(record.Name)
			return s.notHeld(stream, e, ok)
		case <-s.draining.Done():
			return context.Cause(s.draining)
		}
	}
}

// notHeld tells a worker that a run is not its own any more.
func (s *Server) notHeld(stream conclavev1.RunService_ClaimRunServer, e queued, known bool) error {
	ended := &conclavev1.EndedRun{Reason: "there is no such run"}
	if known {
		ended.State, ended.Reason = states[e.record.State], e.record.Reason
		if !e.record.State.Final() {
			ended.Reason = "it is not this worker's any more, or another stream holds it"
		}
	}
	return stream.Send(&conclavev1.ClaimRunResponse{Message: &conclavev1.ClaimRunResponse_Ended{Ended: ended}})
}

func checkWorker(w *conclavev1.Worker) error {
	if w == nil {
		return invalidf("the first message of a worker says who it is")
	}
	if err := checkName("worker", w.GetName()); err != nil {
		return err
	}
	if (w.GetRun() == "") != (w.GetClaim() == "") {
		return invalidf("worker %q names a run without a claim, or a claim without a run", w.GetName())
	}
	if len(w.GetFolders()) > maxFolders {
		return invalidf("worker %q names %d runs that it has begun; %d are the most", w.GetName(), len(w.GetFolders()), maxFolders)
	}
	return nil
}

// boundedProgress cuts the texts that a worker says.
func boundedProgress(p *conclavev1.RunProgress) *conclavev1.RunProgress {
	for _, text := range []*string{&p.Of, &p.Waiting, &p.Part} {
		if *text != "" {
			*text = fault.Printable(*text)
		}
	}
	return p
}

// errLeft is the end of a worker that waited.
var errLeft = errors.New("the worker left")

// nextRun waits until there is a run for a worker, and makes it that worker's.
func (s *Server) nextRun(ctx context.Context, d *dataset, w *conclavev1.Worker, holder string, own *claimStream) (coordinator.Submission, error) {
	defer s.queue.attend(d.record.Name)()
	look := time.NewTicker(roomEvery)
	defer look.Stop()
	for {
		changed := s.queue.awaitChange()
		record, found, err := s.tryNext(ctx, d, w, holder, own)
		if err != nil || found {
			return record, err
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return record, errLeft
		case <-s.stopping:
			return record, errStopping
		case <-s.leading.Done():
			return record, context.Cause(s.leading)
		}
	}
}

// tryNext makes the next run a worker's, if there is one that can begin.
func (s *Server) tryNext(ctx context.Context, d *dataset, w *conclavev1.Worker, holder string, own *claimStream) (coordinator.Submission, bool, error) {
	if err := s.lockQueue(ctx); err != nil {
		if ctx.Err() != nil {
			err = errLeft
		}
		return coordinator.Submission{}, false, err
	}
	defer s.queue.unlock()
	select {
	case <-s.stopping:
		return coordinator.Submission{}, false, errStopping
	default:
	}
	for _, e := range s.queue.list(d.record.Name) {
		q, from := e.record, ""
		switch {
		case q.State == coordinator.Running && e.stream == nil && q.Worker == w.GetName() && q.Holder == holder:
			from = q.Claim // it died, and is back before its grace was over
		case q.State != coordinator.Waiting:
			continue
		default:
			begins, err := s.mayBegin(ctx, q, w)
			switch {
			case err != nil:
				return q, false, err
			case begins == passed:
				continue
			case begins == blocked:
				return q, false, nil // and with it all behind it
			}
		}
		id := make([]byte, 16)
		if _, err := rand.Read(id); err != nil {
			return q, false, err
		}
		record, err := s.store.Claim(s.leading, s.lead, q.Name, from, coordinator.Holder{Worker: w.GetName(), By: holder, Claim: hex.EncodeToString(id)})
		if err := s.queue.took(record, err); err != nil {
			return q, false, err
		}
		s.queue.connect(record.Name, record.Claim, own)
		return record, true, nil
	}
	return coordinator.Submission{}, false, nil
}

// How a run that waits stands to a worker that asks.
type turn int

const (
	begins  turn = iota
	passed       // not for this worker, or not any more
	blocked      // it has to wait, and others behind it
)

// mayBegin answers whether a worker may have a run that waits. One that does not fit what
// is left of the dataset's budget ends here, at no cost; one that does not fit beside what others may
// still spend waits for them. Callers hold the queue's turn.
func (s *Server) mayBegin(ctx context.Context, q coordinator.Submission, w *conclavev1.Worker) (turn, error) {
	r, err := s.store.Run(ctx, q.Name)
	switch {
	case err == nil && r.Forgotten > 0 && !slices.Contains(w.GetFolders(), q.Name):
		s.queue.note(q.Name, fmt.Sprintf("waits for a worker with the checkpoint of worker %q: answers before round %d are gone", q.Worker, r.Forgotten))
		return passed, nil
	case err == nil: // it was opened before, and is reserved for
		return begins, nil
	case !isNoRun(err):
		return passed, err
	}
	held := s.inQueue(q.Dataset, coordinator.Running)
	room, err := s.store.Room(ctx, q.Dataset)
	if err != nil {
		return passed, err
	}
	if err := room.Holds(q.Purse()); err != nil {
		end := coordinator.End{State: coordinator.Failed, Reason: err.Error()}
		if isOverBudget(err) {
			end.State, end.Reason = coordinator.OutOfBudget, fmt.Sprintf("nothing was spent: %v", err)
		}
		_, err := s.endQueued(ctx, caller{}, q.Name, end)
		return passed, err
	}
	reserved, err := room.Reserved(room.Unopened(held)...)
	if err != nil {
		return passed, err
	}
	if err := room.Budget.RoomBeside(reserved, q.Budget, q.Plan); err != nil {
		s.queue.note(q.Name, fmt.Sprintf("waits for %s: it would not fit beside what may still be spent there", s.openRuns(room, q.Dataset)))
		return blocked, nil
	}
	return begins, nil
}

// openRuns names runs of a dataset that are open or held, a few of them.
func (s *Server) openRuns(room coordinator.Room, dataset string) string {
	var names []string
	for _, r := range room.Open {
		names = append(names, r.Name)
	}
	for _, e := range s.queue.list(dataset) {
		if e.record.State == coordinator.Running && !slices.Contains(names, e.record.Name) {
			names = append(names, e.record.Name)
		}
	}
	const most = 5
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return "the open runs " + strings.Join(names, ", ") + more
}

// claimedRun is a run as its worker gets it.
func (s *Server) claimedRun(ctx context.Context, q coordinator.Submission) (*conclavev1.ClaimedRun, error) {
	runFile, schema, err := s.store.SubmittedFiles(ctx, q)
	if err != nil {
		return nil, err
	}
	spec := new(conclavev1.RunSpec)
	if err := proto.Unmarshal(q.Spec, spec); err != nil {
		return nil, fmt.Errorf("read a stored run spec: %w", err)
	}
	return &conclavev1.ClaimedRun{Name: q.Name, Claim: q.Claim, Spec: spec, RunYaml: runFile, SchemaYaml: schema}, nil
}

// FinishRun ends a run in the words of its worker.
func (s *runService) FinishRun(ctx context.Context, q *conclavev1.FinishRunRequest) (*conclavev1.FinishRunResponse, error) {
	r, err := s.finishRun(ctx, q)
	if err != nil {
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{Method: "FinishRun", Run: q.GetRun()})
	}
	return r, err
}

func (s *runService) finishRun(ctx context.Context, q *conclavev1.FinishRunRequest) (*conclavev1.FinishRunResponse, error) {
	end, err := endOf(q)
	if err != nil {
		return nil, err
	}
	if err := s.lockQueue(ctx); err != nil {
		return nil, err
	}
	defer s.queue.unlock()
	e, ok := s.queue.get(q.GetRun())
	if !ok {
		return nil, fmt.Errorf("%w in the queue: %q", coordinator.ErrNoRun, fault.Printable(q.GetRun()))
	}
	if e.record.Holder != peer.SessionOf(ctx).Identity.Name {
		return nil, fault.Deniedf("run %q is not held by %q", q.GetRun(), peer.SessionOf(ctx).Identity.Name)
	}
	if e.record.State == coordinator.Running && e.record.Claim != end.Claim {
		return nil, refusedf("run %q is held by worker %q, with another claim", q.GetRun(), e.record.Worker)
	}
	record, err := s.endQueued(ctx, callerOf(ctx), q.GetRun(), end)
	if err != nil {
		return nil, err
	}
	e, _ = s.queue.get(record.Name)
	status, err := s.statusOf(ctx, e)
	return &conclavev1.FinishRunResponse{Run: status}, err
}

// endOf reads how a run ended.
func endOf(q *conclavev1.FinishRunRequest) (coordinator.End, error) {
	end := coordinator.End{Claim: q.GetClaim()}
	if q.GetReason() != "" {
		end.Reason = cleaned(q.GetReason())
	}
	if end.Claim == "" {
		return end, invalidf("run %q is finished without a claim", fault.Printable(q.GetRun()))
	}
	switch q.GetState() {
	case conclavev1.RunState_RUN_STATE_DONE:
		end.State = coordinator.Done
	case conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET:
		end.State = coordinator.OutOfBudget
	case conclavev1.RunState_RUN_STATE_FAILED:
		end.State = coordinator.Failed
	default:
		return end, invalidf("run %q is finished as %v; a worker says done, out of budget or failed", fault.Printable(q.GetRun()), q.GetState())
	}
	for _, r := range q.GetResults() {
		sum, err := hex.DecodeString(r.GetSha256())
		if err != nil || len(sum) != 32 || len(r.GetName()) > fault.MaxReason || len(r.GetPath()) > maxPath || r.GetName() == "" {
			return end, invalidf("run %q has a result that is no file with a name, a path and a SHA-256", fault.Printable(q.GetRun()))
		}
		end.Results = append(end.Results, coordinator.Result{Name: cleaned(r.GetName()), Path: cleaned(r.GetPath()), SHA256: r.GetSha256()})
	}
	return end, nil
}
