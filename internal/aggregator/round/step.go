package round

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// collect waits until the round can be answered: nil, or why it cannot. A server that stops
// waits for nodes that have the round, and for no others.
func (e *Execution) collect(server *lifetime.Lifetime) error {
	stops, stopping := false, server.Stopping()
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
			return fault.ErrStopping
		}
		select {
		case <-stopping:
			stops, stopping = true, nil
		case <-e.woken:
		case <-tick.C:
		case <-e.abandoned.Done():
			return fault.Unavailablef("round %d of run %q was given up: nobody waits for it", e.key.Number, e.key.Run)
		case <-server.Draining().Done():
			return context.Cause(server.Draining())
		}
	}
}

// stalled says that the round needs nodes that are not there, or that nobody waits for it.
func (e *Execution) stalled() bool {
	if e.outer != nil && e.outer.idle() {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters == 0 || e.progress.GetWaitingForQuorum()
}

func (e *Execution) stopTimer() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.schedule.timer != nil {
		e.schedule.timer.Stop()
	}
}

// step compares the live nodes with what is known, asks the nodes that were
// not asked yet, and says whether the round is over.
func (e *Execution) step(live []*peer.Node, now time.Time) (finished bool, err error) {
	finished, due, err := e.compare(live, now)
	// Not under e.mu: the first nodes answer while the last ones are sent the round, and
	// taking an answer would wait for all of them.
	peer.Ask(due, e.sent(), e.parts)
	return finished, err
}

// compare is step without sending the round to the nodes that it is due to.
func (e *Execution) compare(live []*peer.Node, now time.Time) (finished bool, due []*peer.Node, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.participants.expect(len(live))
	answered := e.participants.answered
	present := answered // live or already counted
	connected, waiting, left := uint32(0), uint32(0), 0
	var failures, waitingFor []string
	var unasked []*stream
	for _, n := range live {
		if e.dropped(n.ID) {
			continue
		}
		connected += n.Teachers
		p := e.participants.of(n.ID)
		if p.teachers > 0 {
			continue
		}
		present += n.Teachers
		s := p.on(n)
		if s.state == failed {
			failures = append(failures, n.ID.String()+" "+s.problem)
		} else if why, ok := n.Undecided(e.key.Run); ok {
			waiting += n.Teachers
			waitingFor = append(waitingFor, n.ID.String()+" "+strings.TrimSpace(why))
		} else {
			left++
			if s.state == unsent {
				unasked = append(unasked, s)
			}
		}
	}
	e.schedule.left, e.schedule.stepped = left, now
	if present > e.spec.PB.GetTeachers() {
		return false, nil, e.tooMany(live)
	}
	if e.schedule.deadline.IsZero() && connected >= e.spec.Quorum {
		e.schedule.deadline = now.Add(e.spec.Deadline)
		e.spans.enter("collect")
		e.schedule.timer = time.AfterFunc(e.spec.Deadline, e.wake)
	}
	if !e.schedule.deadline.IsZero() {
		if due, err = e.ask(unasked); err != nil {
			return false, due, err
		}
	}
	e.report(&conclavev1.Progress{
		TeachersNeeded:   e.spec.Quorum,
		TeachersLive:     connected,
		TeachersAnswered: answered,
		WaitingForQuorum: present-waiting < e.spec.Quorum,
		WaitingFor:       waitingFor,
	})

	switch {
	case answered >= e.spec.Quorum && (left == 0 || !now.Before(e.schedule.deadline)):
		e.open = false
		return true, due, nil
	case left == 0 && len(failures) > 0 && present >= e.spec.Quorum && answered+waiting < e.spec.Quorum:
		// Everybody who could answer did, and it is not enough.
		return false, due, fault.Refusedf("round %d of run %q has %d of the %d teachers it needs, and all others that "+
			"are connected turned it down: %s",
			e.key.Number, e.key.Run, answered, e.spec.Quorum, strings.Join(failures, "; "))
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
func (e *Execution) ask(streams []*stream) ([]*peer.Node, error) {
	due := make([]*peer.Node, 0, len(streams))
	for _, s := range streams {
		if err := e.question.Fits(s.node.Teachers); err != nil {
			return due, fault.Invalidf("round %d of run %q, node %v: %w", e.key.Number, e.key.Run, s.node.ID, err)
		}
		e.participants.ask(s)
		due = append(due, s.node)
	}
	return due, nil
}

func (e *Execution) tooMany(live []*peer.Node) error {
	names := make([]string, len(live))
	for i, n := range live {
		names[i] = fmt.Sprintf("%v with %d", n.ID, n.Teachers)
	}
	return fault.Refusedf("run %q counts on %d teachers and more are connected (%s); stop the surplus nodes or open "+
		"a run with more teachers",
		e.key.Run, e.spec.PB.GetTeachers(), strings.Join(names, ", "))
}
