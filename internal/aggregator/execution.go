package aggregator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// progressEvery is how often a waiting student hears how a round stands.
	progressEvery = time.Second
	// quietFor is how long he first hears nothing.
	quietFor = 100 * time.Millisecond
	// stepEvery is how often answers alone wake an execution: a step looks at every node,
	// and one for every answer would make a round of n nodes cost n times n.
	stepEvery = 100 * time.Millisecond
	// abandonAfter is how long a round goes on that nobody waits for any
	// more: long enough for a student to dial again.
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
	key      roundKey
	attempt  uint64 // no other execution of this server has it
	digest   [32]byte
	forget   uint64
	spec     *runSpec
	dataset  *dataset
	question question
	parts    []encoded
	terms    *conclavev1.RoundTerms
	began    time.Time
	asker    caller // whose request began it
	spans    spans

	woken     chan struct{} // holds one token while a step is due
	done      chan struct{} // closed when the outcome is set
	abandoned chan struct{} // closed when the round shall end unanswered
	abandon   sync.Once

	mu         sync.Mutex
	open       bool                  // answers are still taken
	asked      map[*peer.Node]bool   // streams that were sent the round, and whether they owe an answer
	owing      int                   // how many do
	failed     map[*peer.Node]string // streams whose answer was refused or rejected
	again      map[*peer.Node]int    // how often a stream let the round wait
	counted    map[peer.ID]uint32    // nodes whose answer is in counts, with their teachers
	counts     []int64               // the sum of all answers
	pending    int                   // nodes that may still answer, as of the last step and the answers since
	stepped    time.Time             // when the last step was
	deadline   time.Time             // when waiting for the rest ends; zero before there is a quorum
	atDeadline *time.Timer           // wakes the execution then
	progress   *conclavev1.Progress
	changed    chan struct{} // closed and replaced when progress changes
	waiters    int
	idleSince  time.Time // when the last waiter left

	// outer is the execution that this is a pass of, nil of others; told is whether that one
	// hears how this one stands.
	outer *execution
	told  bool
	// released is the answer of a round whose sums are collected again, nil of others.
	released     *conclavev1.Release
	contributors contributors
	// given is the number of teachers behind sums that were not collected here.
	given uint32

	charged *charged            // nil where nothing was
	release *conclavev1.Release // outcome, set before done is closed
	err     error
}

func newExecution(p *payload, attempt uint64, spec *runSpec, d *dataset, q question, parts []encoded) *execution {
	return &execution{
		key:       p.key,
		attempt:   attempt,
		digest:    p.digest,
		forget:    p.forget,
		spec:      spec,
		dataset:   d,
		question:  q,
		parts:     parts,
		terms:     p.terms,
		began:     time.Now(),
		woken:     make(chan struct{}, 1),
		done:      make(chan struct{}),
		abandoned: make(chan struct{}),
		open:      true,
		asked:     map[*peer.Node]bool{},
		failed:    map[*peer.Node]string{},
		again:     map[*peer.Node]int{},
		counted:   map[peer.ID]uint32{},
		counts:    make([]int64, q.length()),
		progress:  &conclavev1.Progress{TeachersNeeded: spec.quorum},
		changed:   make(chan struct{}),
		idleSince: time.Now(),
	}
}

// sent is the round as nodes get it.
func (e *execution) sent() peer.Round {
	return peer.Round{Run: e.key.run, Number: e.key.number, Attempt: e.attempt}
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
		if stops && e.forlorn() {
			return errStopping
		}
		select {
		case <-stopping:
			stops, stopping = true, nil
		case <-e.woken:
		case <-tick.C:
		case <-e.abandoned:
			return unavailablef("round %d of run %q was given up: nobody waits for it", e.key.number, e.key.run)
		case <-draining.Done():
			return context.Cause(draining)
		}
	}
}

// forlorn says that the round needs nodes that are not there, or that nobody waits for it.
func (e *execution) forlorn() bool {
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
	if e.atDeadline != nil {
		e.atDeadline.Stop()
	}
}

// step compares the live nodes with what is known, asks whoever was not asked
// yet, and says whether the round is over.
func (e *execution) step(live []*peer.Node, now time.Time) (finished bool, err error) {
	finished, due, err := e.compare(live, now)
	// Not under e.mu: the first nodes answer while the last ones are sent the round, and
	// whoever takes an answer would wait for all of them.
	peer.Ask(due, e.sent(), e.parts)
	return finished, err
}

// compare is step without sending the round to the nodes that it is due to.
func (e *execution) compare(live []*peer.Node, now time.Time) (finished bool, due []*peer.Node, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	connected, answered, waiting, pending := uint32(0), uint32(0), uint32(0), 0
	for _, t := range e.counted {
		answered += t
	}
	present := answered // live or already counted
	var failures, waitingFor []string
	for _, n := range live {
		connected += n.Teachers
		if _, ok := e.counted[n.ID]; ok {
			continue
		}
		present += n.Teachers
		if why, ok := e.failed[n]; ok {
			failures = append(failures, n.ID.String()+" "+why)
		} else if why, ok := n.Undecided(e.key.run); ok {
			waiting += n.Teachers
			waitingFor = append(waitingFor, waitingText(n, why))
		} else {
			pending++
		}
	}
	e.pending, e.stepped = pending, now
	if present > e.spec.pb.GetTeachers() {
		return false, nil, e.tooMany(live)
	}
	if e.deadline.IsZero() && connected >= e.spec.quorum {
		e.deadline = now.Add(e.spec.deadline)
		e.spans.enter("collect")
		e.atDeadline = time.AfterFunc(e.spec.deadline, e.wake)
	}
	if !e.deadline.IsZero() {
		if due, err = e.due(live); err != nil {
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
	case answered >= e.spec.quorum && (pending == 0 || !now.Before(e.deadline)):
		e.open = false
		return true, due, nil
	case pending == 0 && len(failures) > 0 && present >= e.spec.quorum && answered+waiting < e.spec.quorum:
		// Everybody who could answer did, and it is not enough.
		return false, due, refusedf("round %d of run %q has %d of the %d teachers it needs, and all others that are connected turned it down: %s",
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

// due notes every live node that neither has the round nor answered it as asked, and
// returns them. Callers hold e.mu, and send them the round.
func (e *execution) due(live []*peer.Node) (due []*peer.Node, err error) {
	if len(e.asked) == 0 && len(e.counted) == 0 { // who was not asked has not answered
		e.asked = make(map[*peer.Node]bool, len(live))
		e.counted = make(map[peer.ID]uint32, len(live))
		e.contributors.expect(len(live))
		due = make([]*peer.Node, 0, len(live))
	}
	for _, n := range live {
		if _, ok := e.counted[n.ID]; ok {
			continue
		}
		if _, ok := e.asked[n]; ok {
			continue
		}
		if _, waits := n.Undecided(e.key.run); waits {
			continue
		}
		if err := e.question.fits(n.Teachers); err != nil {
			return due, invalidf("round %d of run %q, node %v: %w", e.key.number, e.key.run, n.ID, err)
		}
		e.asked[n] = true
		e.owing++
		due = append(due, n)
	}
	return due, nil
}

func (e *execution) tooMany(live []*peer.Node) error {
	names := make([]string, len(live))
	for i, n := range live {
		names[i] = fmt.Sprintf("%v with %d", n.ID, n.Teachers)
	}
	return refusedf("run %q counts on %d teachers and more are connected (%s); stop the surplus nodes or open a run with more teachers",
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
	total := e.given
	for _, t := range e.counted {
		total += t
	}
	return total
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
	if e.owing == 0 {
		return nil
	}
	var message peer.Encoded
	for n, owes := range e.asked {
		if !owes {
			continue
		}
		if message == nil {
			var err error
			if message, err = peer.Encode(&conclavev1.WorkResponse{Attempt: e.attempt, Message: &conclavev1.WorkResponse_Withdraw{
				Withdraw: &conclavev1.Withdraw{Run: e.key.run, Round: e.key.number},
			}}); err != nil {
				return err
			}
		}
		n.Withdraw(e.sent(), message)
	}
	return nil
}

// finish sets the outcome.
func (e *execution) finish(r *conclavev1.Release, err error) {
	e.release, e.err = r, err
	close(e.done)
}
