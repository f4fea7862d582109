package aggregator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
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

// execution is one round being answered. However many requests ask for the
// round, it is executed once.
//
// It is driven by the state of its dataset, not by events: whenever something
// may have changed it is woken and compares the nodes that are live with
// those it asked and those that answered (step). Joins, leaves and answers may
// thus come in any order.
type execution struct {
	inquiry
	spans spans

	woken     chan struct{} // holds one token while a step is due
	abandoned chan struct{} // closed when the round shall end unanswered
	abandon   sync.Once

	mu           sync.Mutex
	open         bool // answers are still taken
	participants participants
	counts       []int64 // the sum of all answers
	schedule     schedule
	audience

	// outer is the execution that this is a pass of, nil of others; told is whether that one
	// is told how this one stands.
	outer *execution
	told  bool
	// given is the number of teachers behind sums that were not collected here.
	given uint32

	outcome
}

// inquiry is what an execution answers. It does not change.
type inquiry struct {
	key      roundKey
	attempt  uint64 // no other execution of this server has it
	digest   [32]byte
	forget   uint64
	spec     *runSpec
	planned  int // the entry of the plan that pays
	dataset  *dataset
	question question
	parts    []encoded
	terms    *conclavev1.RoundTerms
	began    time.Time
	asker    caller // whose request began it
	// released is the answer of a round whose sums are collected again, nil of others.
	released *conclavev1.Release
}

// schedule says when the next step is due, and when the round may end. It is used under
// execution.mu.
type schedule struct {
	left     int         // nodes that may still answer, as of the last step and the answers since
	stepped  time.Time   // when the last step was
	deadline time.Time   // when waiting for the rest ends; zero before there is a quorum
	timer    *time.Timer // wakes the execution then
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
	charged *charged            // nil where nothing was
	release *conclavev1.Release // nil with an error
	err     error
}

// newExecution returns a round that one request waits for already, the one that begins it. If
// that were counted after the launch, the round could reach a node and its student be gone and
// ask otherwise before: that question would be refused, because somebody waits for the round.
func newExecution(p *payload, attempt uint64, spec *runSpec, d *dataset, q question, parts []encoded) *execution {
	return &execution{
		inquiry: inquiry{
			key: p.key, attempt: attempt, digest: p.digest, forget: p.forget, spec: spec, planned: int(p.round.GetPlanned()),
			dataset: d, question: q,
			parts: parts, terms: p.terms, began: time.Now(),
		},
		woken:     make(chan struct{}, 1),
		abandoned: make(chan struct{}),
		open:      true,
		counts:    make([]int64, q.length()),
		audience: audience{
			progress: &conclavev1.Progress{TeachersNeeded: spec.quorum},
			changed:  make(chan struct{}),
			waiters:  1,
		},
		outcome: outcome{done: make(chan struct{})},
	}
}

// sent is the round as nodes get it.
func (q *inquiry) sent() peer.Round {
	return peer.Round{Run: q.key.run, Number: q.key.number, Attempt: q.attempt}
}

// kind is what the plan calls the question.
func (q *inquiry) kind() string { return q.spec.plan[q.planned].Kind }

// worst is the most that the run's plan is used by the round.
func (q *inquiry) worst() privacy.Use {
	return privacy.Use{Planned: q.planned, Queries: q.question.queries(), Answered: q.question.queries()}
}

func (e *execution) wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

func (e *execution) finished() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// cancel ends a round that collects answers. A round that is being charged
// goes on.
func (e *execution) cancel() { e.abandon.Do(func() { close(e.abandoned) }) }

// attach and detach count the requests that wait.
func (e *execution) attach() {
	e.mu.Lock()
	e.waiters++
	e.mu.Unlock()
}

func (e *execution) detach() {
	e.mu.Lock()
	e.waiters--
	e.idleSince = time.Now()
	e.mu.Unlock()
}

func (e *execution) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters == 0
}

// watch returns how the round stands and a channel that is closed when that
// changes.
func (e *execution) watch() (*conclavev1.Progress, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.progress, e.changed
}

// collect waits until the round can be answered: nil, or why it cannot. Once stopping is
// closed it waits for nodes that have the round, and for nobody else.
func (e *execution) collect(draining context.Context, stopping <-chan struct{}) error {
	stops := false
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	defer e.stopTimer()
	for {
		if err := e.revoked(); err != nil {
			return err
		}
		finished, err := e.step(e.dataset.Live(), time.Now())
		if finished || err != nil {
			return err
		}
		if stops && e.stalled() {
			return errStopping
		}
		select {
		case <-stopping:
			stops, stopping = true, nil
		case <-e.woken:
		case <-tick.C:
		case <-e.abandoned:
			return fault.Unavailablef("round %d of run %q was given up: nobody waits for it", e.key.number, e.key.run)
		case <-draining.Done():
			return context.Cause(draining)
		}
	}
}

// stalled says that the round needs nodes that are not there, or that nobody waits for it.
func (e *execution) stalled() bool {
	if e.outer != nil && e.outer.idle() {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters == 0 || e.progress.GetWaitingForQuorum()
}

func (e *execution) stopTimer() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.schedule.timer != nil {
		e.schedule.timer.Stop()
	}
}

// step compares the live nodes with what is known, asks the nodes that were
// not asked yet, and says whether the round is over.
func (e *execution) step(live []*peer.Node, now time.Time) (finished bool, err error) {
	finished, due, err := e.compare(live, now)
	// Not under e.mu: the first nodes answer while the last ones are sent the round, and
	// taking an answer would wait for all of them.
	peer.Ask(due, e.sent(), e.parts)
	return finished, err
}

// compare is step without sending the round to the nodes that it is due to.
func (e *execution) compare(live []*peer.Node, now time.Time) (finished bool, due []*peer.Node, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.participants.expect(len(live))
	answered := e.participants.answered
	present := answered // live or already counted
	connected, waiting, left := uint32(0), uint32(0), 0
	var failures, waitingFor []string
	var unasked []*stream
	for _, n := range live {
		connected += n.Teachers
		p := e.participants.of(n.ID)
		if p.teachers > 0 {
			continue
		}
		present += n.Teachers
		s := p.on(n)
		if s.state == failed {
			failures = append(failures, n.ID.String()+" "+s.problem)
		} else if why, ok := n.Undecided(e.key.run); ok {
			waiting += n.Teachers
			waitingFor = append(waitingFor, waitingText(n, why))
		} else {
			left++
			if s.state == unsent {
				unasked = append(unasked, s)
			}
		}
	}
	e.schedule.left, e.schedule.stepped = left, now
	if present > e.spec.pb.GetTeachers() {
		return false, nil, e.tooMany(live)
	}
	if e.schedule.deadline.IsZero() && connected >= e.spec.quorum {
		e.schedule.deadline = now.Add(e.spec.deadline)
		e.spans.enter("collect")
		e.schedule.timer = time.AfterFunc(e.spec.deadline, e.wake)
	}
	if !e.schedule.deadline.IsZero() {
		if due, err = e.ask(unasked); err != nil {
			return false, due, err
		}
	}
	e.report(&conclavev1.Progress{
		TeachersNeeded:   e.spec.quorum,
		TeachersLive:     connected,
		TeachersAnswered: answered,
		WaitingForQuorum: present-waiting < e.spec.quorum,
		WaitingFor:       waitingFor,
	})

	switch {
	case answered >= e.spec.quorum && (left == 0 || !now.Before(e.schedule.deadline)):
		e.open = false
		return true, due, nil
	case left == 0 && len(failures) > 0 && present >= e.spec.quorum && answered+waiting < e.spec.quorum:
		// Everybody who could answer did, and it is not enough.
		return false, due, fault.Refusedf("round %d of run %q has %d of the %d teachers it needs, and all others that "+
			"are connected turned it down: %s",
			e.key.number, e.key.run, answered, e.spec.quorum, strings.Join(failures, "; "))
	case e.outer != nil:
		if e.outer.idleFor(abandonAfter, now) {
			e.outer.cancel()
		}
	case e.waiters == 0 && now.Sub(e.idleSince) > abandonAfter:
		e.cancel()
	}
	return false, due, nil
}

// ask notes that streams are sent the round, and returns their nodes. Callers hold e.mu, and
// send it to them.
func (e *execution) ask(streams []*stream) ([]*peer.Node, error) {
	due := make([]*peer.Node, 0, len(streams))
	for _, s := range streams {
		if err := e.question.fits(s.node.Teachers); err != nil {
			return due, fault.Invalidf("round %d of run %q, node %v: %w", e.key.number, e.key.run, s.node.ID, err)
		}
		e.participants.ask(s)
		due = append(due, s.node)
	}
	return due, nil
}

func (e *execution) tooMany(live []*peer.Node) error {
	names := make([]string, len(live))
	for i, n := range live {
		names[i] = fmt.Sprintf("%v with %d", n.ID, n.Teachers)
	}
	return fault.Refusedf("run %q counts on %d teachers and more are connected (%s); stop the surplus nodes or open "+
		"a run with more teachers",
		e.key.run, e.spec.pb.GetTeachers(), strings.Join(names, ", "))
}

// report tells the waiting requests about a change. Callers hold e.mu.
func (e *execution) report(p *conclavev1.Progress) {
	old := e.progress
	if old.GetTeachersLive() == p.GetTeachersLive() && old.GetTeachersAnswered() == p.GetTeachersAnswered() &&
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

// takenPart returns the number of teachers whose answers count.
func (e *execution) takenPart() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.given + e.participants.answered
}

// took notes teachers whose sums were collected before.
func (e *execution) took(teachers uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.given = teachers
}

// withdraw tells the nodes that were asked and did not answer that the round
// is over.
func (e *execution) withdraw() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = false
	pending := e.participants.unanswered()
	if len(pending) == 0 {
		return nil
	}
	message, err := peer.Encode(&conclavev1.WorkResponse{
		Attempt: e.attempt,
		Message: &conclavev1.WorkResponse_Withdraw{Withdraw: &conclavev1.Withdraw{Run: e.key.run, Round: e.key.number}},
	})
	if err != nil {
		return err
	}
	for _, n := range pending {
		n.Withdraw(e.sent(), message)
	}
	return nil
}

// finish sets the outcome.
func (e *execution) finish(r *conclavev1.Release, err error) {
	e.release, e.err = r, err
	close(e.done)
}
