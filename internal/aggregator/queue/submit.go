package queue

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxWaiting bounds the waiting runs of a dataset, maxWaitingOf those of one student.
	maxWaiting   = 1000
	maxWaitingOf = 100
)

// Submission is a run to queue, with its checked spec.
type Submission struct {
	Record   coordinator.Submission
	Files    coordinator.Files
	Study    *study.Block // from its spec; nil without a study
	Teachers uint32
	// Overcommit also queues a run that only fits if others leave some budget.
	Overcommit bool
}

// Submit queues a run, or finds it again. The response has its status and its dataset's budget.
func (q *Queue) Submit(ctx context.Context, by peer.Caller, in Submission) (*conclavev1.SubmitRunResponse, error) {
	if err := q.lock(ctx); err != nil {
		return nil, err
	}
	defer q.turn.Unlock()
	fits := true
	if _, known := q.get(in.Record.Name); !known {
		err := q.Rounds.Datasets[in.Record.Dataset].CheckStudy(in.Record.Name, in.Study, q.Rounds.Now())
		if err != nil {
			return nil, err
		}
		if err := q.counts(ctx, in.Record); err != nil {
			return nil, err
		}
		if fits, err = q.fits(ctx, in.Record, in.Overcommit); err != nil {
			return nil, err
		}
	}
	stored, existing, err := q.Store.Submit(q.Lifetime.Leading(), q.Lead, in.Record, in.Files)
	if err := q.took(stored, err); err != nil {
		return nil, err
	}
	if !existing {
		q.Log.Info("run submitted", zap.String("run", stored.Name), zap.String("dataset", stored.Dataset),
			zap.String("student", stored.By), zap.Float64("epsilon", stored.Budget.Epsilon),
			zap.Float64("delta", stored.Budget.Delta))
		_ = q.Audit.Write(by, auditlog.Entry{
			Event: auditlog.RunSubmitted, Dataset: stored.Dataset, Run: stored.Name, Teachers: in.Teachers,
			Study: auditlog.StudyOf(in.Study.Named()),
		})
	}
	e, _ := q.get(stored.Name)
	status, err := q.status(ctx, e)
	if err != nil {
		return nil, err
	}
	budget, left, err := q.Budget(ctx, stored.Dataset, in.Record.Budget.Delta)
	return &conclavev1.SubmitRunResponse{
		Run: status, Existing: existing, Budget: budget, Fits: fits, EpsilonLeft: left,
	}, err
}

// counts refuses a run if its student has reached the limit on runs or on their plan entries. Opened runs count
// because they stay in the ledger, ended unopened runs because they leave a record here.
func (q *Queue) counts(ctx context.Context, s coordinator.Submission) error {
	student := s.By
	runs, err := q.Rounds.Opened(ctx, func(r round.Opened) bool { return r.Student == student })
	if err != nil {
		return err
	}
	for _, e := range q.list("") {
		if _, opened := runs[e.record.Name]; !opened && e.record.By == student {
			runs[e.record.Name] = round.Opened{Dataset: e.record.Dataset, Entries: len(e.record.Plan)}
		}
	}
	entries := 0
	for _, r := range runs {
		if r.Dataset == s.Dataset {
			entries += r.Entries
		}
	}
	if entries+len(s.Plan) > q.MostEntries {
		return round.TooManyEntries(student, s.Dataset, entries, len(s.Plan), q.MostEntries)
	}
	if len(runs) >= q.MostRuns {
		return fault.TooManyf("student %q has opened or submitted %d runs, the maximum (max_runs); remove runs that "+
			"ended without being opened, or have the operator raise max_runs", student, len(runs))
	}
	return nil
}

// fits decides whether a new run fits beside all that earlier runs may spend. It refuses a run that can no longer fit
// and, without overcommit, one that only fits if others leave some budget.
func (q *Queue) fits(ctx context.Context, s coordinator.Submission, overcommit bool) (bool, error) {
	queued := q.in(s.Dataset, coordinator.Waiting, coordinator.Running)
	if len(queued) >= maxWaiting {
		return false, fault.Refusedf("%d runs are waiting or running on dataset %q, the maximum; cancel some, or "+
			"submit later", len(queued), s.Dataset)
	}
	ofStudent := 0
	for _, other := range queued {
		if other.By == s.By {
			ofStudent++
		}
	}
	if ofStudent >= maxWaitingOf {
		return false, fault.Refusedf("%d runs of student %q are waiting or running on dataset %q, the maximum; "+
			"cancel some, or submit later", ofStudent, s.By, s.Dataset)
	}
	if s.Budget.Filter == privacy.FilterPLD { // slow, and must hold whatever others do
		if _, err := s.Plan.Check(s.Budget); err != nil {
			return false, fmt.Errorf("run %q: %w", s.Name, err)
		}
	}
	room, err := q.room(ctx, s.Dataset)
	if err != nil {
		return false, err
	}
	if err := room.Holds(s.Spending()); err != nil {
		return false, fault.OverBudget(err, "run %q exceeds what is left of the budget of dataset "+
			"%q", s.Name, s.Dataset)
	}
	waiting := room.Unopened(queued)
	reserved, err := room.Reserved(waiting...)
	if err != nil {
		return false, err
	}
	err = room.Budget.RoomBeside(reserved, s.Budget, s.Plan)
	if err == nil || isOverBudget(err) && overcommit {
		return err == nil, nil
	}
	if !isOverBudget(err) {
		return false, fmt.Errorf("run %q: %w", s.Name, err)
	}
	left, leftErr := room.Budget.Left(reserved, s.Budget.Delta)
	if leftErr != nil {
		return false, leftErr
	}
	return false, fault.OverBudget(privacy.ErrOverBudget,
		"run %q asks for epsilon %v at delta %v, and after %d open and %d waiting runs dataset %q has %v left; lower "+
			"its epsilon, or submit it with overcommit: if too little is left, it ends as out of budget, at no cost",
		s.Name, s.Budget.Epsilon, s.Budget.Delta, len(room.Open), len(waiting), s.Dataset, left)
}

// room is what a dataset has spent, and what its open runs may still spend.
func (q *Queue) room(ctx context.Context, dataset string) (coordinator.Room, error) {
	runs, err := q.Rounds.Opened(ctx, func(r round.Opened) bool { return r.Dataset == dataset })
	if err != nil {
		return coordinator.Room{}, err
	}
	open := map[string]bool{}
	for name, r := range runs {
		open[name] = r.Open
	}
	return q.Store.Room(ctx, dataset, open)
}

// Budget is the state of a dataset's budget, with the epsilon that one more run at this delta could have.
func (q *Queue) Budget(ctx context.Context, dataset string, delta float64) (*conclavev1.DatasetBudget, float64, error) {
	queued := q.in(dataset, coordinator.Waiting, coordinator.Running)
	room, err := q.room(ctx, dataset)
	if err != nil {
		return nil, 0, err
	}
	b := room.Budget
	waiting := room.Unopened(queued)
	reserved, err := room.Reserved(waiting...)
	if err != nil {
		return nil, 0, err
	}
	budget := &conclavev1.DatasetBudget{
		Dataset: dataset, Epsilon: b.Epsilon, Delta: b.Delta, Filter: string(b.Filter),
		Open: uint32(len(room.Open)), Waiting: uint32(len(waiting)), Workers: uint32(q.workers(dataset)),
		Study: q.Rounds.Datasets[dataset].Study.Wire(),
	}
	if budget.Filter == "" {
		budget.Filter = "gdp"
	}
	if budget.EpsilonSpent, err = b.Filter.Epsilon(room.Spent, b.Delta); err != nil {
		return nil, 0, err
	}
	if budget.EpsilonReserved, err = b.Taken(reserved); err != nil {
		return nil, 0, err
	}
	if budget.EpsilonLeft, err = b.Left(reserved, b.Delta); err != nil {
		return nil, 0, err
	}
	left, err := b.Left(reserved, delta)
	return budget, left, err
}
