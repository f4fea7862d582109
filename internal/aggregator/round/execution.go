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
	// progressEvery is how often a waiting student is told how a round stands.
	progressEvery = time.Second
	// progressDelay is the wait before the first progress update.
	progressDelay = 100 * time.Millisecond
	// stepEvery is how often answers alone wake an execution: a step looks at every node,
	// and one for every answer would make a round of n nodes cost n times n.
	stepEvery = 100 * time.Millisecond
	// abandonAfter is how long a round goes on that nobody waits for: long enough for a
	// student to dial again.
	abandonAfter = 15 * time.Second
)

// Execution is one round being answered. However many requests ask for the
// round, it is executed once.
//
// It is driven by the state of its dataset, not by events: whenever something
// may have changed it is woken and compares the nodes that are live with
// those it asked and those that answered (step). Joins, leaves and answers may
// thus come in any order.
type Execution struct {
	inquiry
	spans spans
	// permitMessage asks sites whether they permit the run, nil while no node was asked.
	permitMessage []peer.Encoded

	woken     chan struct{}   // holds one token while a step is due
	abandoned context.Context // ends when the round shall end unanswered
	cancel    context.CancelFunc

	mu           sync.Mutex
	open         bool // answers are still taken
	participants participants
	counts       []int64 // the sum of all answers
	// inFlight is the number of connected teachers that were asked and did not answer, as of the
	// last step.
	inFlight uint32
	schedule schedule
	audience
	// given has the teachers of sums that were not collected here.
	given taken
	// outer is the execution that this is a pass of, nil of others; told is whether the
	// requests that wait for it are told how this one stands.
	outer *Execution
	told  bool
	// asked are the nodes that were sent the round first, nil before; noted says that the store knows of it. The
	// goroutine that collects uses them.
	asked []*peer.Node
	noted bool

	// masked is the attempt at a masked round that is under way, nil where there is none; runKeys says which run
	// keys of nodes are those of members.
	masked  *attempt
	runKeys map[*conclavev1.RunKey]bool

	outcome
}

// inquiry is what an execution answers. It does not change until the execution has ended.
type inquiry struct {
	key      payload.Key
	permit   uint64 // the attempt by which sites are asked whether they permit the run
	attempt  uint64 // no other execution of this server has it
	digest   [32]byte
	forget   uint64
	spec     *spec.Spec
	planned  int // the entry of the plan that pays
	dataset  *Dataset
	question Question
	parts    []peer.Encoded
	payload  *payload.Payload // of a masked run, in place of parts
	terms    *conclavev1.RoundTerms
	began    time.Time
	asker    peer.Caller // whose request began it
	student  string      // that asks
	room     int         // bytes of the student's room; of the goroutine that collects
	cache    *cache      // of the run, for sums
	// released is the answer of a round whose sums are collected again, nil of others.
	released *conclavev1.Release
}

// schedule says when the next step is due, and when the round may end. It is used under
// execution.mu.
type schedule struct {
	left int // nodes that may still answer, as of the last step and the answers since
	// unanswered is how many of them did not say whether they may, and missing how many teachers
	// the permitted ones are short of a quorum, both as of then.
	unanswered int
	missing    int64
	stepped    time.Time   // when the last step was
	deadline   time.Time   // when waiting for the rest ends; zero before there is a quorum
	timer      *time.Timer // wakes the execution then
}

// due says whether a step may end the round. Nodes that left are among those that may still
// answer until the step that their leave is followed by; with too few of these there is a step
// too many.
func (s *schedule) due(now time.Time) bool {
	return s.left <= 0 || !s.deadline.IsZero() && !now.Before(s.deadline) || now.Sub(s.stepped) >= stepEvery
}

// audience are the requests that wait for a round, and what they are told. It is used under
// execution.mu.
type audience struct {
	progress  *conclavev1.Progress
	changed   chan struct{} // closed and replaced when progress changes
	waiters   int
	idleSince time.Time // when the last waiter left
}

// outcome is how an execution ended.
type outcome struct {
	done    chan struct{}       // closed when the rest is set
	charged *charge             // nil where nothing was
	release *conclavev1.Release // nil with an error
	err     error
}

// newExecution returns an execution of what is asked. Passes have an outer one, nil elsewhere. The
// request that begins it waits for it, until it leaves: if it came later, a node could have the
// round and the student be gone, and the execution would still turn from idle to waited for.
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
	if q.spec.Masked == nil { // each attempt has a sum of its own
		e.counts = make([]int64, q.question.Length())
	}
	within := context.Background()
	if outer != nil {
		within = outer.abandoned
	}
	e.abandoned, e.cancel = context.WithCancel(within)
	return e
}

// sent is the round as nodes get it.
func (q *inquiry) sent() peer.Round {
	return peer.Round{Run: q.key.Run, Number: q.key.Number, Attempt: q.attempt}
}

func (e *Execution) kind() string { return e.spec.Plan[e.planned].Kind }

// worst is the most that the run's plan is used by the round.
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

// end ends the round if it collects answers, and waits for its outcome. A round that is being
// charged goes on.
func (e *Execution) end(ctx context.Context) error {
	e.cancel()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attach counts a request that waits, until Leave.
func (e *Execution) attach() {
	e.mu.Lock()
	e.waiters++
	e.mu.Unlock()
}

// Leave says that a request no longer waits.
func (e *Execution) Leave() {
	e.mu.Lock()
	e.waiters--
	e.idleSince = time.Now()
	e.mu.Unlock()
}

// idle says that no request waits.
func (e *Execution) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters == 0
}

// idleFor is whether no request has waited for so long.
func (e *Execution) idleFor(d time.Duration, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters == 0 && now.Sub(e.idleSince) > d
}

// Asker is the peer whose request began the round.
func (e *Execution) Asker() peer.Caller { return e.asker }

// Await waits for the release, and reports how the round stands until then. Nothing is
// reported of a round that is over soon: each report costs as much as the answer of a node.
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

// watch returns how the round stands and a channel that is closed when that changes.
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

// took says which teachers took part: those that answered, and those that were asked, are connected,
// and did not answer in time. So it is not told who is slow, which could depend on records.
func (e *Execution) took() taken {
	e.mu.Lock()
	defer e.mu.Unlock()
	answered := e.participants.answered
	return taken{part: e.given.part + answered + e.inFlight, answered: e.given.answered + answered}
}

// taken are the teachers that took part in a round, and those of them that answered.
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

// withdraw tells the nodes that were asked and did not answer that the round
// is over.
func (e *Execution) withdraw() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = false
	return e.withdrawFrom(e.participants.unanswered(), e.attempt)
}

// withdrawFrom tells nodes that were asked by an attempt, and did not answer, that the round is over for them.
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

// drop forgets what was asked and added up: requests hold on to an execution until they have sent its
// outcome.
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
