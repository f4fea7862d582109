package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Claim is a run that a worker has, for the life of one stream of the worker.
type Claim struct {
	Record coordinator.Submission

	queue *Queue
	// ended is closed when the worker loses the run, or another stream takes over.
	ended chan struct{}
	once  sync.Once
}

// Ended is closed when the worker loses the run, or another of its streams takes over; [Queue.Ended] says which.
func (c *Claim) Ended() <-chan struct{} { return c.ended }

func (c *Claim) end() {
	if c != nil {
		c.once.Do(func() { close(c.ended) })
	}
}

// Resume attaches a new stream to the worker that has a run by a claim, and ends an earlier stream. It returns nil if
// the worker does not have the run.
func (q *Queue) Resume(run, claim, holder string) *Claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byName[run]
	if e == nil || e.record.State != coordinator.Running || e.record.Claim != claim || e.record.Holder != holder {
		return nil
	}
	return q.connect(e)
}

// connect starts a stream's claim. Callers hold q.mu.
func (q *Queue) connect(e *entry) *Claim {
	e.claim.end()
	e.claim = &Claim{Record: e.record, queue: q, ended: make(chan struct{})}
	q.wake()
	return e.claim
}

// Disconnect records that the stream ended. The worker can return within its grace period.
func (c *Claim) Disconnect() {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	if e := c.queue.byName[c.Record.Name]; e != nil && e.claim == c {
		e.claim, e.lost = nil, time.Now()
		c.queue.wake()
	}
}

// Report records the worker's progress. Watchers look every second.
func (c *Claim) Report(p *conclavev1.RunProgress) {
	for _, text := range []*string{&p.Of, &p.Waiting, &p.Part} {
		if *text != "" {
			*text = fault.Printable(*text)
		}
	}
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	if e := c.queue.byName[c.Record.Name]; e != nil && e.claim == c {
		e.progress = p
		e.halts(p)
	}
}

// GiveBack returns the run to the queue at its worker's request.
func (c *Claim) GiveBack(by peer.Caller) error {
	return c.queue.giveBack(by, c.Record.Name, c.Record.Claim, fmt.Sprintf("worker %q returned it", c.Record.Worker))
}

// Claimed is the run as sent to its worker.
func (c *Claim) Claimed(ctx context.Context) (*conclavev1.ClaimedRun, error) {
	files, err := c.queue.Store.SubmittedFiles(ctx, c.Record)
	if err != nil {
		return nil, err
	}
	spec := new(conclavev1.RunSpec)
	if err := proto.Unmarshal(c.Record.Spec, spec); err != nil {
		return nil, fmt.Errorf("read a stored run spec: %w", err)
	}
	return &conclavev1.ClaimedRun{
		Name: c.Record.Name, Claim: c.Record.Claim, Spec: spec, RunYaml: files.Run, SchemaYaml: files.Schema,
		StudyYaml: files.Study,
	}, nil
}

// Ended tells a worker why it no longer has a run.
func (q *Queue) Ended(run string) *conclavev1.EndedRun {
	e, known := q.get(run)
	if !known {
		return &conclavev1.EndedRun{Reason: "there is no such run"}
	}
	ended := &conclavev1.EndedRun{State: states[e.record.State], Reason: e.record.Reason}
	if !e.record.State.Final() {
		ended.Reason = "this worker no longer has its claim, or another stream does"
	}
	return ended
}
