package round

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/privacy"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// progressEvery is how often a waiting student gets a progress update.
	progressEvery = time.Second
	// progressDelay is the wait before the first progress update.
	progressDelay = 100 * time.Millisecond
	// stepEvery limits how often answers wake an execution: a step checks every node, so a step per answer would make
	// a round of n nodes cost n times n.
	stepEvery = 100 * time.Millisecond
	// abandonAfter is how long a round that nobody waits for continues: long enough for a student to reconnect.
	abandonAfter = 15 * time.Second
)

// Execution is one round being answered. However many requests ask for the round, it is executed once.
//
// It is driven by the state of its dataset, not by events. When something may have changed, step compares the live
// nodes with those asked and those that answered. So joins, leaves and answers may come in any order.
type Execution struct {
	inquiry
	spans spans

	woken     chan struct{}   // has one token while a step is due
	abandoned context.Context // ends when the round must end without a release
	cancel    context.CancelFunc

	mu           sync.Mutex
	open         bool // answers are accepted
	participants participants
	counts       []int64 // the sum of all answers
	// inFlight is the number of connected teachers that were asked and had not answered at the last step.
	inFlight uint32
	schedule schedule
	audience
	// given has the teachers of sums that were collected elsewhere.
	given taken
	// outer is the execution that this is a pass of, or nil. told is whether its waiting requests get the progress of
	// this pass.
	outer *Execution
	told  bool
	firstAsked
	masks

	outcome
}

// firstAsked is what the collecting goroutine knows of the nodes that it asked first.
type firstAsked struct {
	// permitMessage asks sites whether they permit the run; nil before a node was asked.
	permitMessage []peer.Encoded
	// asked has the nodes that were sent the round first, nil before; noted reports that the store knows.
	asked []*peer.Node
	noted bool
}

// masks is the state of a masked round.
type masks struct {
	// masked is the current attempt, or nil; runKeys records which run keys of nodes belong to members.
	masked  *attempt
	runKeys map[*conclavev1.RunKey]bool
}

// inquiry is what an execution answers. It is constant until the execution has ended.
type inquiry struct {
	key      payload.Key
	permit   uint64 // the attempt that asks sites whether they permit the run
	attempt  uint64 // unique among the executions of this server
	digest   [32]byte
	forget   uint64
	spec     *spec.Spec
	planned  int // the plan entry that pays
	dataset  *Dataset
	question Question
	parts    []peer.Encoded
	payload  *payload.Payload // in a masked run, instead of parts
	terms    *conclavev1.RoundTerms
	began    time.Time
	asker    peer.Caller // its request started the round
	student  string      // the asking student
	room     int         // reserved bytes of the student's room; used only by the collecting goroutine
	cache    *cache      // of the run, for sums
	// released is the stored answer if the sums are collected again, otherwise nil.
	released *conclavev1.Release
}

// schedule decides when the next step is due and when the round may end. It is guarded by execution.mu.
type schedule struct {
	left int // nodes that may still answer, from the last step and later answers
	// At the last step: unanswered counts nodes that have not said whether they may answer, and missing the teachers
	// that the permitted nodes lack for a quorum.
	unanswered int
	missing    int64
	stepped    time.Time   // time of the last step
	deadline   time.Time   // end of the wait for the rest; zero before there is a quorum
	timer      *time.Timer // wakes the execution at that time
}

// due reports whether a step may end the round. Nodes that left still count as possible answers until the next step,
// so a step may be unnecessary but is never missed.
func (s *schedule) due(now time.Time) bool {
	return s.left <= 0 || !s.deadline.IsZero() && !now.Before(s.deadline) || now.Sub(s.stepped) >= stepEvery
}

// audience has the requests that wait for a round, and their progress. It is guarded by execution.mu.
type audience struct {
	progress  *conclavev1.Progress
	changed   chan struct{} // closed and replaced when progress changes
	waiters   int
	idleSince time.Time // time when the last waiting request left
}

// outcome is how an execution ended.
type outcome struct {
	done    chan struct{}       // closed when the other fields are set
	charged *charge             // nil if nothing was charged
	release *conclavev1.Release // nil if there is an error
	err     error
}

// newExecution returns an execution of an inquiry; a pass has an outer execution, otherwise nil. The request that
// starts it counts as waiting from the beginning: otherwise the round could look idle after nodes have received it.
func newExecution(q inquiry, outer *Execution) *Execution {
	q.began = time.Now()
	e := &Execution{
		inquiry: q,
		woken:   make(chan struct{}, 1),
		open:    true,
		outer:   outer,
		audience: audience{
			progress:  &conclavev1.Progress{TeachersNeeded: q.spec.Quorum},
			changed:   make(chan struct{}),
			waiters:   1,
			idleSince: time.Now(),
		},
		outcome: outcome{done: make(chan struct{})},
	}
	if q.spec.Masked == nil { // each attempt has its own sum
		e.counts = make([]int64, q.question.Length())
	}
	within := context.Background()
	if outer != nil {
		within = outer.abandoned
	}
	e.abandoned, e.cancel = context.WithCancel(within)
	return e
}

// sent is the round as sent to nodes.
func (q *inquiry) sent() peer.Round {
	return peer.Round{Run: q.key.Run, Number: q.key.Number, Attempt: q.attempt}
}

func (e *Execution) kind() string { return e.spec.Plan[e.planned].Kind }

// worst is the most that the round can use of the run's plan.
func (e *Execution) worst() privacy.Use {
	return privacy.Use{Planned: e.planned, Queries: e.question.Queries(), Answered: e.question.Queries()}
}

func (e *Execution) wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

func (e *Execution) finished() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// end ends the round if it still collects answers, and waits for its outcome. A round that is being charged finishes.
func (e *Execution) end(ctx context.Context) error {
	e.cancel()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attach counts a waiting request until Leave.
func (e *Execution) attach() {
	e.mu.Lock()
	e.waiters++
	e.mu.Unlock()
}

// Leave stops counting a waiting request.
func (e *Execution) Leave() {
	e.mu.Lock()
	e.waiters--
	e.idleSince = time.Now()
	e.mu.Unlock()
}

// idle reports whether no request waits.
func (e *Execution) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters == 0
}

// idleFor reports whether no request has waited for d.
func (e *Execution) idleFor(d time.Duration, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters == 0 && now.Sub(e.idleSince) > d
}

// Asker is the peer whose request started the round.
func (e *Execution) Asker() peer.Caller { return e.asker }

// Await waits for the release and reports progress until then. A short round reports none, because each report costs
// as much as a node's answer.
func (e *Execution) Await(ctx context.Context, report func(*conclavev1.Progress) error) (*conclavev1.Release, error) {
	soon := time.NewTimer(progressDelay)
	defer soon.Stop()
	select {
	case <-e.done:
		return e.release, e.err
	case <-soon.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		progress, changed := e.watch()
		if err := report(progress); err != nil {
			return nil, err
		}
		select {
		case <-e.done:
			return e.release, e.err
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// watch returns the progress and a channel that is closed when it changes.
func (e *Execution) watch() (*conclavev1.Progress, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.progress, e.changed
}

// report tells the waiting requests about a change. Callers hold e.mu.
func (e *Execution) report(p *conclavev1.Progress) {
	old := e.progress
	if old.GetTeachersLive() == p.GetTeachersLive() &&
		old.GetWaitingForQuorum() == p.GetWaitingForQuorum() && slices.Equal(old.GetWaitingFor(), p.GetWaitingFor()) {
		return
	}
	e.progress = p
	close(e.changed)
	e.changed = make(chan struct{})
	if e.told {
		e.outer.mu.Lock()
		defer e.outer.mu.Unlock()
		e.outer.report(p)
	}
}

// took returns the teachers that took part: those that answered, and those that were asked, are connected, and did
// not answer in time. Counting the latter hides which nodes are slow, which could depend on records.
func (e *Execution) took() taken {
	e.mu.Lock()
	defer e.mu.Unlock()
	answered := e.participants.answered
	return taken{part: e.given.part + answered + e.inFlight, answered: e.given.answered + answered}
}

// taken counts the teachers that took part in a round, and those of them that answered.
type taken struct{ part, answered uint32 }

// give takes sums that were collected elsewhere: in passes of this execution, or before it.
func (e *Execution) give(counts []int64, teachers taken, contributors map[*peer.Session]peer.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts, e.given = counts, teachers
	for s, id := range contributors {
		e.participants.contribute(id, s)
	}
}

// withdraw tells the nodes that were asked and have not answered that the round is over.
func (e *Execution) withdraw() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = false
	return e.withdrawFrom(e.participants.unanswered(), e.attempt)
}

// withdrawFrom tells nodes that an attempt asked, and that have not answered, that the round is over for them.
func (q *inquiry) withdrawFrom(nodes []*peer.Node, attempt uint64) error {
	if len(nodes) == 0 {
		return nil
	}
	message, err := peer.Encode(&conclavev1.WorkResponse{
		Attempt: attempt,
		Message: &conclavev1.WorkResponse_Withdraw{Withdraw: &conclavev1.Withdraw{Run: q.key.Run, Round: q.key.Number}},
	})
	if err != nil {
		return err
	}
	for _, n := range nodes {
		n.Withdraw(peer.Round{Run: q.key.Run, Number: q.key.Number, Attempt: attempt}, message)
	}
	return nil
}

// drop frees what was asked and added up: requests keep a reference to an execution until they have sent its outcome.
func (e *Execution) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parts, e.counts, e.payload, e.masked = nil, nil, nil, nil
}

// finish sets the outcome.
func (e *Execution) finish(r *conclavev1.Release, err error) {
	e.release, e.err = r, err
	close(e.done)
}
