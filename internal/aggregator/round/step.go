package round

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// collect waits until the round can be answered, or returns why it cannot.
func (rs *Rounds) collect(e *Execution) error {
	defer e.stopTimer()
	return rs.until(e, func(now time.Time) (bool, error) {
		finished, err := e.step(e.dataset.Live(), now)
		if noted := rs.note(e); noted != nil {
			return false, noted
		}
		return finished, err
	})
}

// until waits until step is done or fails. It calls step whenever something may have changed. A stopping server waits
// only for nodes that have the round.
func (rs *Rounds) until(e *Execution, step func(now time.Time) (done bool, err error)) error {
	server := rs.Lifetime
	stops, stopping := false, server.Stopping()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		if err := e.revoked(); err != nil {
			return err
		}
		if err := rs.studyEnded(e); err != nil {
			return err
		}
		if done, err := step(time.Now()); done || err != nil {
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
			return fault.Unavailablef("round %d of run %q was abandoned, because no caller waits for it",
				e.key.Number, e.key.Run)
		case <-server.Draining().Done():
			return context.Cause(server.Draining())
		}
	}
}

// studyEnded is why a round that waits for a quorum is not sent: its study has ended. A round that a quorum already
// has was asked in time.
func (rs *Rounds) studyEnded(e *Execution) error {
	e.mu.Lock()
	waits := e.progress.GetWaitingForQuorum()
	e.mu.Unlock()
	if !waits {
		return nil
	}
	return e.dataset.CheckStudy(e.key.Run, e.spec.Study, rs.Now())
}

// stalled reports whether the round needs nodes that are missing, or nobody waits for it.
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

// step compares the live nodes with the known ones, asks new nodes, and reports whether the round is over.
func (e *Execution) step(live []*peer.Node, now time.Time) (finished bool, err error) {
	var ps permits
	finished, due, err := e.compare(live, now, &ps)
	if len(e.asked) == 0 {
		e.asked = due
	}
	// Not under e.mu: the first nodes answer while the last ones are sent the round, and their answers must not wait.
	peer.Ask(due, e.sent(), e.parts)
	if err == nil && !finished {
		err = e.inquire(ps.unasked)
	}
	return finished, err
}

// compare is step without sending anything. It adds the sites' decisions to ps.
func (e *Execution) compare(live []*peer.Node, now time.Time, ps *permits) (
	finished bool, due []*peer.Node, err error,
) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.participants.expect(len(live))
	answered := e.participants.answered
	present := answered // live or already counted
	connected, sentTo, slow, left := uint32(0), uint32(0), uint32(0), 0
	var failures []string
	for _, n := range live {
		if dropped, late := e.dropped(n.ID); dropped {
			if late {
				connected, slow = connected+n.Teachers, slow+n.Teachers
			}
			continue
		}
		connected += n.Teachers
		p := e.participants.of(n.ID)
		if p.teachers > 0 {
			continue
		}
		present += n.Teachers
		s := p.on(n)
		if s.state == unsent {
			e.look(s, ps)
		}
		switch s.state {
		case failed:
			failures = append(failures, n.ID.String()+" "+s.problem)
		case sent:
			sentTo += n.Teachers
			left++
		}
	}
	left += len(ps.willing) + ps.unanswered
	e.inFlight = sentTo + slow
	willing := answered + sentTo + ps.permitted
	e.schedule.unanswered, e.schedule.missing = ps.unanswered, int64(e.spec.Quorum)-int64(willing)
	e.schedule.left, e.schedule.stepped = left, now
	if present > e.spec.PB.GetTeachers() {
		return false, nil, e.tooMany(live)
	}
	if willing >= e.spec.Quorum {
		if e.schedule.deadline.IsZero() {
			e.schedule.deadline = now.Add(e.spec.Deadline)
			e.spans.enter("collect")
			e.schedule.timer = time.AfterFunc(e.spec.Deadline, e.wake)
		}
		if due, err = e.ask(ps.willing); err != nil {
			return false, due, err
		}
	} else {
		ps.waitingFor = append(ps.waitingFor, ps.silent...)
	}
	e.report(&conclavev1.Progress{
		TeachersNeeded:   e.spec.Quorum,
		TeachersLive:     connected,
		WaitingForQuorum: willing < e.spec.Quorum,
		WaitingFor:       someOf(ps.waitingFor),
	})

	switch {
	case answered >= e.spec.Quorum && (left == 0 || !now.Before(e.schedule.deadline)):
		e.open = false
		return true, due, nil
	case left == len(ps.willing) && len(failures) > 0 && present >= e.spec.Quorum &&
		willing+ps.waiting < e.spec.Quorum:
		// No decision is pending, and the willing nodes are not enough.
		return false, due, fault.Refusedf("round %d of run %q has %d of the %d teachers it needs, and all other "+
			"connected nodes refused it: %s",
			e.key.Number, e.key.Run, willing, e.spec.Quorum, strings.Join(someOf(failures), "; "))
	case e.outer != nil:
		if e.outer.idleFor(abandonAfter, now) {
			e.outer.cancel()
		}
	case e.waiters == 0 && now.Sub(e.idleSince) > abandonAfter:
		e.cancel()
	}
	return false, due, nil
}

// ask records that all streams, or none, are sent the round, and returns their nodes. Callers hold e.mu, and then
// send it.
func (e *Execution) ask(streams []*stream) ([]*peer.Node, error) {
	for _, s := range streams {
		if err := e.question.Fits(s.node.Teachers); err != nil {
			return nil, fault.Invalidf("round %d of run %q, node %v: %w", e.key.Number, e.key.Run, s.node.ID, err)
		}
	}
	due := make([]*peer.Node, len(streams))
	for i, s := range streams {
		e.participants.ask(s)
		due[i] = s.node
	}
	return due, nil
}

func (e *Execution) tooMany(live []*peer.Node) error {
	names := make([]string, len(live))
	for i, n := range live {
		names[i] = fmt.Sprintf("%v with %d", n.ID, n.Teachers)
	}
	return fault.Refusedf("run %q has %d teachers, and more are connected (%s); stop some nodes, or open a run with "+
		"more teachers",
		e.key.Run, e.spec.PB.GetTeachers(), strings.Join(someOf(names), ", "))
}

// mostNamed bounds how many nodes a student sees by name: sites choose the names and the number of their nodes.
const mostNamed = 20

// someOf returns the first of these texts and how many more there are.
func someOf(nodes []string) []string {
	if len(nodes) <= mostNamed {
		return nodes
	}
	return append(slices.Clone(nodes[:mostNamed]), fmt.Sprintf("and %d more", len(nodes)-mostNamed))
}
