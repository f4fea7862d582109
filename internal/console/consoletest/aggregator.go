// Package consoletest has an in-memory aggregator with any number of nodes and runs, for tests and measurements of
// the console.
package consoletest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/requester"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Dataset is the name of the dataset of all runs and nodes.
const Dataset = "cohort"

// Aggregator answers as an aggregator does.
type Aggregator struct {
	// Lines are the ledger, Bundle the file that can be fetched; Took is the duration of a list.
	Lines  [][]byte
	Bundle []byte
	Took   time.Duration

	mu      sync.Mutex
	runs    []*conclavev1.RunStatus
	nodes   []*conclavev1.NodeStatus
	changed chan struct{}
	asked   int
}

// New makes an aggregator with this many nodes, two per site, and this many runs of ten students.
func New(nodes, runs int) *Aggregator {
	a := &Aggregator{changed: make(chan struct{})}
	for i := range nodes {
		n := &conclavev1.NodeStatus{
			Name: &conclavev1.NodeName{Dataset: Dataset, Site: fmt.Sprintf("site-%04d", i/2),
				Node: fmt.Sprint(i % 2)},
			Teachers: 10, Software: "conclave 0.1.0", CertificateEnds: "2099-01-31T12:00:00Z",
			State: conclavev1.NodeState_NODE_STATE_READY,
		}
		switch i % 50 {
		case 7:
			n.State, n.Since = conclavev1.NodeState_NODE_STATE_STALLED, "2026-11-26T18:06:00Z"
			n.Reason = "it was asked a round of run run-00001 and has not answered; its site looks at its log"
		case 8:
			n.State, n.Since = conclavev1.NodeState_NODE_STATE_NOT_CONNECTED, "2026-11-26T17:00:00Z"
			n.Reason, n.Software, n.CertificateEnds = "its connection broke, or its process ended", "", ""
		}
		a.nodes = append(a.nodes, n)
	}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range runs {
		at := began.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
		r := &conclavev1.RunStatus{
			Name: fmt.Sprintf("run-%05d", i), Dataset: Dataset, State: conclavev1.RunState_RUN_STATE_DONE,
			Pipeline: "pategan",
			Epsilon:  1, Delta: 1e-6, EpsilonSpent: 0.875, Rounds: 30, Teachers: 100, Queued: true,
			By: fmt.Sprintf("lab-%d", i%10), Submitted: at, Worker: "w", Holder: "worker", Claims: 1, Claimed: at,
			Ended:  at,
			Opened: true, Closed: true, LedgerHead: fmt.Sprintf("%064d", i), Purpose: "how age and outcome go together",
		}
		switch left := runs - i; {
		case left <= 2:
			r.State, r.Place, r.Ended = conclavev1.RunState_RUN_STATE_WAITING, uint32(3-left), ""
			r.Opened, r.Closed, r.EpsilonSpent, r.Rounds, r.LedgerHead = false, false, 0, 0, ""
			r.Reason = "waits for budget that open runs may still spend"
		case left == 3:
			r.State, r.Ended, r.Closed, r.Connected = conclavev1.RunState_RUN_STATE_RUNNING, "", false, true
		case i%100 == 5:
			r.State, r.Reason = conclavev1.RunState_RUN_STATE_FAILED, "its worker's disk was full"
		}
		a.runs = append(a.runs, r)
	}
	return a
}

// Change changes a run.
func (a *Aggregator) Change(name string, change func(*conclavev1.RunStatus)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, r := range a.runs {
		if r.GetName() == name { // earlier results stay unchanged
			a.runs[i] = proto.CloneOf(r)
			change(a.runs[i])
		}
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// Asked is how often the runs were listed.
func (a *Aggregator) Asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// List returns the runs and the budget.
func (a *Aggregator) List(ctx context.Context, _ string) ([]*conclavev1.RunStatus, []*conclavev1.DatasetBudget, error) {
	select {
	case <-time.After(a.Took):
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return slices.Clone(a.runs), []*conclavev1.DatasetBudget{{
		Dataset: Dataset, Epsilon: 20, Delta: 1e-5, Filter: "gdp", EpsilonSpent: 7.5, EpsilonReserved: 8.25,
		EpsilonLeft: 11.5,
		Open:        1, Waiting: 2, Workers: 3,
	}}, nil
}

// Nodes returns the state of the nodes.
func (a *Aggregator) Nodes(context.Context) ([]*conclavev1.NodeStatus, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.nodes), nil
}

func (a *Aggregator) find(run string) (*conclavev1.RunStatus, <-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.runs {
		if r.GetName() == run {
			return r, a.changed, nil
		}
	}
	return nil, nil, fmt.Errorf("%w: there is no run %q", student.ErrNotHeld, run)
}

// Show returns one run.
func (a *Aggregator) Show(_ context.Context, run string) (*conclavev1.ShowRunResponse, error) {
	r, _, err := a.find(run)
	if err != nil {
		return nil, err
	}
	p := &conclavev1.RunProgress{}
	if r.GetState() == conclavev1.RunState_RUN_STATE_RUNNING {
		p = &conclavev1.RunProgress{Round: r.GetRounds(), Rounds: 60}
	}
	return &conclavev1.ShowRunResponse{Run: r, Progress: p}, nil
}

// Watch reports each change until the run has ended.
func (a *Aggregator) Watch(ctx context.Context, run string, tell func(*conclavev1.WatchRunResponse)) (
	*conclavev1.RunStatus, error) {
	for {
		r, changed, err := a.find(run)
		if err != nil {
			return nil, err
		}
		tell(&conclavev1.WatchRunResponse{Run: r})
		if r.GetEnded() != "" {
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Cancel ends a run.
func (a *Aggregator) Cancel(_ context.Context, run string, force bool) (*conclavev1.RunStatus, error) {
	r, _, err := a.find(run)
	if err != nil {
		return nil, err
	}
	if !r.GetQueued() && !force {
		return nil, errors.New("it did not come from the queue")
	}
	a.Change(run, func(r *conclavev1.RunStatus) {
		r.State, r.Ended = conclavev1.RunState_RUN_STATE_CANCELLED, r.GetSubmitted()
	})
	r, _, err = a.find(run)
	return r, err
}

// Remove drops a run.
func (a *Aggregator) Remove(_ context.Context, run string) error {
	if _, _, err := a.find(run); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = slices.DeleteFunc(slices.Clone(a.runs), func(r *conclavev1.RunStatus) bool { return r.GetName() == run })
	return nil
}

// Ledger returns the lines.
func (a *Aggregator) Ledger(context.Context, string) ([][]byte, error) { return a.Lines, nil }

// SubmitFile queues a run whose purpose is the text of the file.
func (a *Aggregator) SubmitFile(_ context.Context, path string, _ bool) (*conclavev1.SubmitRunResponse, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("%s: it is empty", path)
	}
	r := &conclavev1.RunStatus{
		Name: "submitted", Dataset: Dataset, State: conclavev1.RunState_RUN_STATE_WAITING, Queued: true, Place: 1,
		By: "lab-1", Submitted: "2030-01-01T00:00:00Z", Purpose: string(raw), Epsilon: 1, Delta: 1e-6,
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = append(slices.Clone(a.runs), r)
	return &conclavev1.SubmitRunResponse{Run: r, Fits: true, Budget: &conclavev1.DatasetBudget{Workers: 1}}, nil
}

// FetchBundle writes the bundle.
func (a *Aggregator) FetchBundle(_ context.Context, f requester.Fetching) (requester.Fetched, error) {
	if a.Bundle == nil {
		return requester.Fetched{}, fmt.Errorf("run %q was submitted by another student", f.Run)
	}
	return requester.Fetched{Files: 1, Bytes: int64(len(a.Bundle)), Verdict: "proven"}, os.WriteFile(f.Out, a.Bundle,
		0o600)
}
