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

// Claim is a run in the hands of a worker, for as long as one stream of the worker lasts.
type Claim struct {
	Record coordinator.Submission

	queue *Queue
	// ended is closed when the run is no longer the worker's, or another stream is.
	ended chan struct{}
	once  sync.Once
}

// Ended is closed when the run is no longer the worker's, or another stream of it holds the
// run; [Queue.Ended] says which.
func (c *Claim) Ended() <-chan struct{} { return c.ended }

func (c *Claim) end() {
	if c != nil {
		c.once.Do(func() { close(c.ended) })
	}
}

// Resume makes a new stream that of the worker that holds a run with a claim; an earlier
// stream ends. It returns nil where the run is not the worker's.
func (q *Queue) Resume(run, claim, holder string) *Claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byName[run]
	if e == nil || e.record.State != coordinator.Running || e.record.Claim != claim || e.record.Holder != holder {
		return nil
	}
	return q.connect(e)
}

// connect begins the claim of a stream. Callers hold q.mu.
func (q *Queue) connect(e *entry) *Claim {
	e.claim.end()
	e.claim = &Claim{Record: e.record, queue: q, ended: make(chan struct{})}
	q.wake()
	return e.claim
}

// Disconnect says that the stream is gone. The worker has its grace to come back.
func (c *Claim) Disconnect() {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	if e := c.queue.byName[c.Record.Name]; e != nil && e.claim == c {
		e.claim, e.lost = nil, time.Now()
		c.queue.wake()
	}
}

// Report takes the worker's progress. Watchers look every second.
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

// GiveBack puts the run back into the queue because its worker says so.
func (c *Claim) GiveBack(by peer.Caller) error {
	return c.queue.giveBack(by, c.Record.Name, c.Record.Claim, fmt.Sprintf("worker %q gave it back", c.Record.Worker))
}

// Claimed is the run as its worker gets it.
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

// Ended tells a worker why a run is not its own.
func (q *Queue) Ended(run string) *conclavev1.EndedRun {
	e, known := q.get(run)
	if !known {
		return &conclavev1.EndedRun{Reason: "there is no such run"}
	}
	ended := &conclavev1.EndedRun{State: states[e.record.State], Reason: e.record.Reason}
	if !e.record.State.Final() {
		ended.Reason = "it is no longer this worker's, or another stream holds it"
	}
	return ended
}
