package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxWaiting bounds the runs that wait on a dataset.
	maxWaiting = 1000
	// maxPath bounds the path of a worker's file.
	maxPath = 1024
	// maxSpec bounds a spec in bytes. They have some hundred.
	maxSpec = 16 << 10
)

// runService serves the queue to students.
type runService struct {
	conclavev1.UnimplementedRunServiceServer
	*Server
}

func isNoRun(err error) bool      { return errors.Is(err, coordinator.ErrNoRun) }
func isOverBudget(err error) bool { return errors.Is(err, privacy.ErrOverBudget) }

// cleaned makes the words of a peer safe for logs and terminals. They are bounded where they are stored.
func cleaned(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// submission is a checked SubmitRunRequest. Of the files it knows their size, and of the
// schema its hash: what a run.yaml means is the workers' to know, who check it again.
type submission struct {
	spec       *runSpec
	runFile    []byte
	schema     []byte
	overcommit bool
}

func newSubmission(q *conclavev1.SubmitRunRequest) (*submission, error) {
	spec, err := newRunSpec(q.GetSpec())
	if err != nil {
		return nil, err
	}
	name := spec.pb.GetName()
	switch {
	case proto.Size(spec.pb) > maxSpec:
		return nil, invalidf("run %q: its spec has %d bytes; %d are the most", name, proto.Size(spec.pb), maxSpec)
	case len(q.GetRunYaml()) == 0 || len(q.GetRunYaml()) > coordinator.MaxRunFile:
		return nil, invalidf("run %q: its run.yaml has %d bytes; it must have 1 to %d", name, len(q.GetRunYaml()), coordinator.MaxRunFile)
	case !utf8.Valid(q.GetRunYaml()):
		return nil, invalidf("run %q: its run.yaml is not UTF-8", name)
	case len(q.GetSchemaYaml()) == 0 || len(q.GetSchemaYaml()) > coordinator.MaxSchemaFile:
		return nil, invalidf("run %q: its schema has %d bytes; it must have 1 to %d", name, len(q.GetSchemaYaml()), coordinator.MaxSchemaFile)
	case spec.pb.GetCoinVotes():
		return nil, refusedf("run %q wants coin votes, the baseline of local runs; the queue takes none", name)
	}
	if sum := sha256.Sum256(q.GetSchemaYaml()); hex.EncodeToString(sum[:]) != spec.pb.GetSchemaSha256() {
		return nil, invalidf("run %q: the schema that came with it is not the one that it names", name)
	}
	return &submission{spec: spec, runFile: q.GetRunYaml(), schema: q.GetSchemaYaml(), overcommit: q.GetOvercommit()}, nil
}

// SubmitRun queues a run.
func (s *runService) SubmitRun(ctx context.Context, q *conclavev1.SubmitRunRequest) (*conclavev1.SubmitRunResponse, error) {
	r, err := s.submitRun(ctx, q)
	if err != nil {
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{Method: "SubmitRun", Dataset: q.GetSpec().GetDataset(), Run: q.GetSpec().GetName()})
	}
	return r, err
}

func (s *runService) submitRun(ctx context.Context, q *conclavev1.SubmitRunRequest) (*conclavev1.SubmitRunResponse, error) {
	in, err := newSubmission(q)
	if err != nil {
		return nil, err
	}
	spec := in.spec
	d, raw, err := s.acceptable(spec)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(in.runFile)
	record := coordinator.Submission{
		Name: spec.pb.GetName(), Dataset: d.record.Name, Pipeline: cleaned(spec.pb.GetPipeline()), Spec: raw,
		Budget: spec.budget, Plan: spec.plan, By: peer.SessionOf(ctx).Identity.Name, RunFile: hex.EncodeToString(sum[:]),
	}
	if err := s.lockQueue(ctx); err != nil {
		return nil, err
	}
	defer s.queue.unlock()
	fits := true
	if _, known := s.queue.get(record.Name); !known {
		if fits, err = s.checkSubmission(ctx, record, in.overcommit); err != nil {
			return nil, err
		}
	}
	stored, existing, err := s.store.Submit(s.leading, s.lead, record, in.runFile, in.schema)
	if err := s.queue.took(stored, err); err != nil {
		return nil, err
	}
	if !existing {
		s.log.Info("run submitted", zap.String("run", stored.Name), zap.String("dataset", stored.Dataset), zap.String("student", stored.By),
			zap.Float64("epsilon", spec.budget.Epsilon), zap.Float64("delta", spec.budget.Delta))
		_ = s.audit(callerOf(ctx), auditlog.Entry{Event: auditlog.RunSubmitted, Dataset: stored.Dataset, Run: stored.Name, Teachers: spec.pb.GetTeachers()})
	}
	e, _ := s.queue.get(stored.Name)
	status, err := s.statusOf(ctx, e)
	if err != nil {
		return nil, err
	}
	budget, left, err := s.budgetOf(ctx, d, spec.budget.Delta)
	return &conclavev1.SubmitRunResponse{Run: status, Existing: existing, Budget: budget, Fits: fits, EpsilonLeft: left}, err
}

// checkSubmission answers whether a new run would fit beside all that runs before it may
// spend. It refuses one that cannot fit any more, and one that would only fit if others
// leave something, unless overcommit says that this is wanted.
func (s *Server) checkSubmission(ctx context.Context, q coordinator.Submission, overcommit bool) (fits bool, err error) {
	queued := s.inQueue(q.Dataset, coordinator.Waiting, coordinator.Running)
	if len(queued) >= maxWaiting {
		return false, refusedf("%d runs wait on dataset %q or are held by workers, the most there may be; cancel some, or submit later", len(queued), q.Dataset)
	}
	if len(q.Plan) > 0 { // takes a while, and has to hold whatever others do
		if _, err := privacy.Plan(q.Plan).Check(q.Budget); err != nil {
			return false, fmt.Errorf("run %q: %w", q.Name, err)
		}
	}
	room, err := s.store.Room(ctx, q.Dataset)
	if err != nil {
		return false, err
	}
	if err := room.Holds(q.Purse()); err != nil {
		return false, overBudget(err, "run %q does not fit what dataset %q has left", q.Name, q.Dataset)
	}
	waiting := room.Unopened(queued)
	reserved, err := room.Reserved(waiting...)
	if err != nil {
		return false, err
	}
	err = room.Budget.RoomBeside(reserved, q.Budget, q.Plan)
	if err == nil || isOverBudget(err) && overcommit {
		return err == nil, nil
	}
	if !isOverBudget(err) {
		return false, fmt.Errorf("run %q: %w", q.Name, err)
	}
	left, leftErr := room.Budget.Left(reserved, q.Budget.Delta)
	if leftErr != nil {
		return false, leftErr
	}
	return false, overBudget(privacy.ErrOverBudget, "run %q wants epsilon %v at delta %v, and beside what %d open and %d waiting runs may spend dataset %q has %v left for it; lower its epsilon, or submit it with overcommit: it ends as out of budget, at no cost, if they leave too little",
		q.Name, q.Budget.Epsilon, q.Budget.Delta, len(room.Open), len(waiting), q.Dataset, left)
}

// inQueue are the runs of a dataset that are in one of the states.
func (s *Server) inQueue(dataset string, in ...coordinator.State) (queued []coordinator.Submission) {
	for _, e := range s.queue.list(dataset) {
		if slices.Contains(in, e.record.State) {
			queued = append(queued, e.record)
		}
	}
	return queued
}

// CancelRun ends a run before its time.
func (s *runService) CancelRun(ctx context.Context, q *conclavev1.CancelRunRequest) (*conclavev1.CancelRunResponse, error) {
	r, err := s.cancelRun(ctx, q)
	if err != nil {
		s.auditRefusal(callerOf(ctx), err, auditlog.Entry{Method: "CancelRun", Run: q.GetRun()})
	}
	return r, err
}

func (s *runService) cancelRun(ctx context.Context, q *conclavev1.CancelRunRequest) (*conclavev1.CancelRunResponse, error) {
	if err := checkName("run", q.GetRun()); err != nil {
		return nil, err
	}
	if err := s.auditLog.Check(); err != nil {
		return nil, err
	}
	who := peer.SessionOf(ctx).Identity.Name
	if err := s.lockQueue(ctx); err != nil {
		return nil, err
	}
	defer s.queue.unlock()
	e, ok := s.queue.get(q.GetRun())
	if !ok {
		return s.cancelDirect(ctx, q, who)
	}
	switch {
	case e.record.State == coordinator.Cancelled:
	case e.record.State.Final():
		return nil, refusedf("run %q has ended already (%s)", q.GetRun(), e.record.State)
	case e.record.By != who && !q.GetForce():
		return nil, fault.Deniedf("run %q was submitted by %q and not by %q; cancel it by force if it has to be", q.GetRun(), e.record.By, who)
	default:
		reason := fmt.Sprintf("by %q", who)
		if _, err := s.endQueued(ctx, callerOf(ctx), q.GetRun(), coordinator.End{State: coordinator.Cancelled, Reason: reason}); err != nil {
			return nil, err
		}
		e, _ = s.queue.get(q.GetRun())
	}
	status, err := s.statusOf(ctx, e)
	return &conclavev1.CancelRunResponse{Run: status}, err
}

// cancelDirect closes a run that a student opened itself, which may be gone or at work:
// nobody here knows. Callers hold the queue's turn, so that no run of the name is submitted
// meanwhile.
func (s *runService) cancelDirect(ctx context.Context, q *conclavev1.CancelRunRequest, who string) (*conclavev1.CancelRunResponse, error) {
	record, err := s.store.Run(ctx, q.GetRun())
	if err != nil {
		return nil, err
	}
	if !record.Closed {
		if !q.GetForce() {
			return nil, refusedf("run %q did not come from the queue: a student opened it%s, and whether that one is gone or will come back is not known here; cancelled by force it is closed: nothing more can be asked in it, and what it spent stays spent", q.GetRun(), by(record.By))
		}
		closed, err := s.endRound(ctx, q.GetRun())
		if err != nil {
			return nil, err
		}
		head, err := s.store.CloseRun(s.leading, s.lead, q.GetRun())
		closed(err == nil)
		if err != nil {
			return nil, err
		}
		s.queue.poke()
		s.log.Info("run cancelled", zap.String("run", q.GetRun()), zap.String("by", who), zap.String("ledger_head", head))
		_ = s.audit(callerOf(ctx), auditlog.Entry{Event: auditlog.RunCancelled, Dataset: record.Dataset, Run: q.GetRun(), LedgerHash: head, Reason: "it was not of the queue"})
		if record, err = s.store.Run(ctx, q.GetRun()); err != nil {
			return nil, err
		}
	}
	return &conclavev1.CancelRunResponse{Run: statusOfRun(record)}, nil
}

func by(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", name)
}
