package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/certs"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

var states = map[coordinator.State]conclavev1.RunState{
	coordinator.Waiting:     conclavev1.RunState_RUN_STATE_WAITING,
	coordinator.Running:     conclavev1.RunState_RUN_STATE_RUNNING,
	coordinator.Done:        conclavev1.RunState_RUN_STATE_DONE,
	coordinator.OutOfBudget: conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET,
	coordinator.Failed:      conclavev1.RunState_RUN_STATE_FAILED,
	coordinator.Cancelled:   conclavev1.RunState_RUN_STATE_CANCELLED,
}

// Counts is the number of a dataset's runs in each state.
func (q *Queue) Counts(dataset string) map[string]int {
	counts := map[string]int{}
	for state := range states {
		counts[string(state)] = 0
	}
	for _, e := range q.list(dataset) {
		counts[string(e.record.State)]++
	}
	return counts
}

// Find returns the status of any run, queued or not, and its worker's progress.
func (q *Queue) Find(ctx context.Context, run string) (*conclavev1.RunStatus, *conclavev1.RunProgress, error) {
	if e, ok := q.get(run); ok {
		status, err := q.status(ctx, e)
		return status, e.progress, err
	}
	r, err := q.Store.Run(ctx, run)
	if err == nil && r.Removed {
		err = fmt.Errorf("%w: %q was removed", coordinator.ErrNoRun, run)
	}
	if err != nil {
		return nil, nil, err
	}
	return statusOfRun(r), nil, nil
}

// RunFile is the run.yaml of a queued run, nil for others.
func (q *Queue) RunFile(ctx context.Context, run string) ([]byte, error) {
	e, ok := q.get(run)
	if !ok {
		return nil, nil
	}
	files, err := q.Store.SubmittedFiles(ctx, e.record)
	return files.Run, err
}

// List returns the status of a dataset's runs that a caller may see: queued runs in order, then runs that students
// opened outside the queue. It reads no others.
func (q *Queue) List(ctx context.Context, dataset string, by certs.Identity) ([]*conclavev1.RunStatus, error) {
	queued := q.list(dataset)
	ofQueue := map[string]bool{}
	for _, e := range queued {
		ofQueue[e.record.Name] = true
	}
	opened, err := q.Rounds.Opened(ctx, func(r round.Opened) bool { return r.Dataset == dataset })
	if err != nil {
		return nil, err
	}
	var names []string
	for name, r := range opened {
		if ofQueue[name] {
			r.By = "" // the submitter and the holder stand for it
		}
		if q.MayRead(name, r.By, by) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var direct []*conclavev1.RunStatus
	byName := map[string]coordinator.Run{}
	err = q.Store.EachRun(ctx, names, func(r coordinator.Run) {
		if !ofQueue[r.Name] {
			direct = append(direct, statusOfRun(r))
			return
		}
		r.Spec, r.Plan, r.Spent = nil, nil, nil
		byName[r.Name] = r
	})
	if err != nil {
		return nil, err
	}
	var all []*conclavev1.RunStatus
	place := uint32(0)
	for _, e := range queued {
		if e.record.State == coordinator.Waiting {
			place++
		}
		if q.MayRead(e.record.Name, "", by) != nil {
			continue
		}
		status := statusOfEntry(e, byName[e.record.Name])
		if e.record.State == coordinator.Waiting {
			status.Place = place
		}
		all = append(all, status)
	}
	return append(all, direct...), nil
}

// status is the status of a queued run, with its figures from the ledger.
func (q *Queue) status(ctx context.Context, e entry) (*conclavev1.RunStatus, error) {
	r, err := q.Store.Run(ctx, e.record.Name)
	if err != nil && !isNoRun(err) {
		return nil, err
	}
	status := statusOfEntry(e, r)
	status.Place = q.place(e.record)
	return status, nil
}

// place counts the dataset's waiting runs up to and including a run.
func (q *Queue) place(s coordinator.Submission) (place uint32) {
	if s.State != coordinator.Waiting {
		return 0
	}
	for _, e := range q.line(s.Dataset) {
		if e.record.State == coordinator.Waiting {
			place++
		}
		if e.record.Name == s.Name {
			break
		}
	}
	return place
}

func statusOfEntry(e entry, r coordinator.Run) *conclavev1.RunStatus {
	s := e.record
	status := &conclavev1.RunStatus{
		Name: s.Name, Dataset: s.Dataset, State: states[s.State], Reason: s.Reason, Pipeline: s.Pipeline,
		Epsilon: s.Budget.Epsilon, Delta: s.Budget.Delta, EpsilonSpent: r.EpsilonSpent, Rounds: r.Releases,
		Teachers: e.teachers, Purpose: e.purpose, Queued: true, By: s.By, Submitted: s.Submitted,
		Worker: s.Worker, Holder: s.Holder, Connected: e.claim != nil, Claims: s.Claims, Claimed: minuteOf(s.Claimed),
		Ended: minuteOf(s.Ended), LedgerHead: r.Head, Opened: r.Name != "", Closed: r.Closed, Study: e.study.Wire(),
	}
	if e.note != "" && s.State == coordinator.Waiting {
		status.Reason = e.note
	}
	if s.State == coordinator.Running && e.claim == nil {
		status.Reason = "its worker is not connected"
	}
	for _, f := range s.Results {
		status.Results = append(status.Results, &conclavev1.RunResult{Name: f.Name, Path: f.Path, Sha256: f.SHA256})
	}
	return status
}

// minuteOf truncates a time of the queue to its minute. The duration of a run depends slightly on records, so nothing
// shared is more precise.
func minuteOf(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return "" // it has not happened yet
	}
	return t.Truncate(time.Minute).Format(time.RFC3339)
}

// statusOfRun is the status of a run outside the queue. The ledger tells whether it is open.
func statusOfRun(r coordinator.Run) *conclavev1.RunStatus {
	spec := specOf(r.Spec)
	status := &conclavev1.RunStatus{
		Name: r.Name, Dataset: r.Dataset, State: conclavev1.RunState_RUN_STATE_RUNNING,
		Epsilon: r.Budget.Epsilon, Delta: r.Budget.Delta, EpsilonSpent: r.EpsilonSpent, Rounds: r.Releases,
		Teachers: spec.GetTeachers(), Pipeline: fault.Clean(spec.GetPipeline()),
		Purpose: fault.Clean(spec.GetPurpose()), Study: spec.GetStudy(),
		By: r.By, Submitted: r.Opened, LedgerHead: r.Head, Opened: true, Closed: r.Closed,
	}
	if r.Closed {
		status.State = conclavev1.RunState_RUN_STATE_DONE
	}
	return status
}

// specOf parses a stored spec; it returns nil, whose fields are all empty, if parsing fails.
func specOf(raw []byte) *conclavev1.RunSpec {
	spec := new(conclavev1.RunSpec)
	if proto.Unmarshal(raw, spec) != nil {
		return nil
	}
	return spec
}
