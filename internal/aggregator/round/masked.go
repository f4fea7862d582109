package round

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/masking"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// maxTurnedDown is how many attempts in a row members may refuse before the round ends. A site may change its
	// mind between its permit and its answer.
	maxTurnedDown = 4
	// A pause between attempts grows while attempts do not open.
	firstAttemptPause, longestAttemptPause = 50 * time.Millisecond, 5 * time.Second
)

// gatherMasked gets the noisy total of a masked round; package masking describes the protocol. If an attempt does not
// open because a member left or refused, another one follows with fresh noise and masks while somebody waits. Sites
// pay for each opening, and open no more often than planned.
func (rs *Rounds) gatherMasked(e *Execution, q Masked) error {
	spoiled, late := map[*peer.Node]bool{}, map[string]bool{}
	pauses := &backoff.ExponentialBackOff{InitialInterval: firstAttemptPause, RandomizationFactor: 0.5, Multiplier: 2,
		MaxInterval: longestAttemptPause}
	for try, turnedDown := 1, 0; ; try++ {
		a, err := rs.assemble(e, q, spoiled, late)
		if err != nil {
			return err
		}
		err = rs.attempt(e, a)
		if broken := (*brokenError)(nil); !errors.As(err, &broken) {
			return err // or nil
		}
		a.leaveOut(spoiled, late)
		if turnedDown++; !a.turnedDown() {
			turnedDown = 0
		}
		if turnedDown == maxTurnedDown {
			return fault.Refusedf("round %d of run %q was rejected: %w; open another run", e.key.Number, e.key.Run,
				err)
		}
		rs.Log.Warn("retrying a masked round", zap.String("run", e.key.Run),
			zap.Uint64("round", e.key.Number), zap.Int("attempts", try), zap.Error(err))
		if err := rs.pause(e, pauses.NextBackOff()); err != nil {
			return err
		}
	}
}

// pause waits between two attempts.
func (rs *Rounds) pause(e *Execution, d time.Duration) error {
	end := time.Now().Add(d)
	timer := time.AfterFunc(d, e.wake)
	defer timer.Stop()
	return rs.until(e, func(now time.Time) (bool, error) {
		e.giveUpIdle(now)
		return !now.Before(end), nil
	})
}

// brokenError is why an attempt does not open.
type brokenError struct{ problems []string }

func (b *brokenError) Error() string { return strings.Join(someOf(b.problems), "; ") }

// assemble waits until a quorum of members may answer, and all decisions are known.
func (rs *Rounds) assemble(e *Execution, q Masked, spoiled map[*peer.Node]bool, late map[string]bool) (
	a *attempt, err error,
) {
	var patience time.Time // after this time silent nodes are left out
	err = rs.until(e, func(now time.Time) (bool, error) {
		var ps permits
		nodes, silent, err := e.choose(&ps, spoiled, late)
		if err != nil {
			return false, err
		}
		if len(nodes) >= e.spec.Masked.Quorum && patience.IsZero() {
			patience = now.Add(e.spec.Deadline)
			time.AfterFunc(e.spec.Deadline, e.wake)
		}
		if len(nodes) < e.spec.Masked.Quorum || silent > 0 && now.Before(patience) {
			e.giveUpIdle(now)
			return false, e.inquire(ps.unasked)
		}
		a = rs.newAttempt(e, q, nodes)
		return true, nil
	})
	return a, err
}

// choose returns the members that may answer, without those that spoiled an attempt. It also omits late members if
// the others are a quorum. Otherwise late members get another chance, because this server may have been the slow one.
func (e *Execution) choose(ps *permits, spoiled map[*peer.Node]bool, late map[string]bool) (
	nodes []*peer.Node, silent int, err error,
) {
	nodes, silent, err = e.members(ps, spoiled, late)
	if len(late) == 0 || err == nil && len(nodes) >= e.spec.Masked.Quorum {
		return nodes, silent, err
	}
	clear(late)
	*ps = permits{}
	return e.members(ps, spoiled, late)
}

// members returns the members that may answer, and how many connected ones have not decided yet.
func (e *Execution) members(ps *permits, spoiled map[*peer.Node]bool, late map[string]bool) (
	nodes []*peer.Node, silent int, err error,
) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.spec.Masked
	connected, denied, strangers := uint32(0), []string(nil), []string(nil)
	missing := map[string]bool{}
	for _, m := range g.Members {
		missing[m.Site] = true
	}
	for _, n := range e.dataset.Live() {
		waits, member := missing[n.ID.Site]
		switch {
		case !member:
			strangers = append(strangers, n.ID.Site)
			continue
		case waits && (spoiled[n] || late[n.ID.Site]):
			missing[n.ID.Site] = false
			denied = append(denied, n.ID.String()+" spoiled an attempt at this round")
			continue
		case !waits:
			return nil, 0, fault.Refusedf("run %q is masked, and site %q has two nodes (one is %v); a site may have "+
				"only one node in a masked run: stop the others", e.key.Run, n.ID.Site, n.ID)
		}
		missing[n.ID.Site] = false
		connected += n.Teachers
		s := e.participants.of(n.ID).on(n)
		was := len(ps.willing)
		e.look(s, ps)
		switch {
		case len(ps.willing) == was && s.state == failed:
			denied = append(denied, n.ID.String()+" "+s.problem)
			s.state = unsent // its site may change its mind
		case len(ps.willing) == was:
		case !e.showsKey(n):
			denied = append(denied, n.ID.String()+" showed no run key of a member")
		default:
			nodes = append(nodes, n)
		}
	}
	waitingFor := append(ps.waitingFor, ps.silent...)
	for _, m := range g.Members {
		if missing[m.Site] {
			waitingFor = append(waitingFor, fmt.Sprintf("site %s, which is not connected", m.Site))
		}
	}
	if len(waitingFor) > 0 && len(strangers) > 0 { // a name may be misspelt
		slices.Sort(strangers)
		waitingFor = append(waitingFor, "these connected sites are not members of the run: "+
			strings.Join(someOf(slices.Compact(strangers)), ", "))
	}
	if connected > e.spec.PB.GetTeachers() {
		return nil, 0, e.tooMany(e.dataset.Live())
	}
	if len(g.Members)-len(denied) < g.Quorum {
		return nil, 0, fault.Refusedf("round %d of run %q needs %d of its %d sites, and too many refused it: %s",
			e.key.Number, e.key.Run, g.Quorum, len(g.Members), strings.Join(someOf(denied), "; "))
	}
	e.report(&conclavev1.Progress{
		TeachersNeeded: e.spec.Quorum, TeachersLive: connected, WaitingForQuorum: len(nodes) < g.Quorum,
		WaitingFor: someOf(append(waitingFor, denied...)),
	})
	return nodes, ps.unanswered, nil
}

// showsKey reports whether a node showed a member's run key. It is called often, but verifies once. Callers hold
// e.mu.
func (e *Execution) showsKey(n *peer.Node) bool {
	k := n.RunKey(e.key.Run)
	good, known := e.runKeys[k]
	if !known {
		if e.runKeys == nil {
			e.runKeys = map[*conclavev1.RunKey]bool{}
		}
		good = masking.CheckKey(e.key.Run, e.specDigest(), *e.spec.Masked, k) == nil
		e.runKeys[k] = good
	}
	return good
}

// specDigest is the digest of the run's spec as sites receive it.
func (e *Execution) specDigest() masking.Digest { return sha256.Sum256(e.terms.GetSpec()) }

// giveUpIdle ends a round that nobody waits for.
func (e *Execution) giveUpIdle(now time.Time) {
	if e.idleFor(abandonAfter, now) {
		e.cancel()
	}
}

// newAttempt starts the next attempt with nodes, which are members sorted by site.
func (rs *Rounds) newAttempt(e *Execution, q Masked, nodes []*peer.Node) *attempt {
	a := &attempt{
		q: q, number: rs.attempts.Add(1), nodes: nodes, sum: make([]int64, q.Length()),
		owes: map[*peer.Node]bool{}, agreed: map[string][][]byte{}, doubts: map[string][]string{},
		revealed: map[string]*conclavev1.Revealed{},
		terms: &masking.Terms{
			Run: e.key.Run, Spec: e.specDigest(), Group: *e.spec.Masked, Round: e.key.Number,
			Fence: uint64(rs.Lead.Fence()), Question: e.digest, Entries: q.Length(), Share: q.Share(),
		},
	}
	a.terms.Counter = a.number
	for _, n := range nodes {
		a.terms.Members = append(a.terms.Members, n.RunKey(e.key.Run))
	}
	a.digest = a.terms.Digest()
	return a
}

// attempt runs an attempt from the question to the total. A [brokenError] says that it does not open.
func (rs *Rounds) attempt(e *Execution, a *attempt) error {
	e.mu.Lock()
	e.masked, e.participants = a, participants{}
	e.mu.Unlock()
	defer e.over(a)
	e.spans.enter("collect")
	question, err := e.payload.Encode(a.number, e.terms, &conclavev1.MaskedRound{
		Fence: a.terms.Fence, Counter: a.terms.Counter, Members: a.terms.Members,
	})
	if err != nil {
		return err
	}
	e.asked = a.nodes
	if err := rs.stage(e, a, answers, a.number, a.nodes, func(r peer.Round) error {
		peer.Ask(a.nodes, r, question)
		return nil
	}); err != nil {
		return err
	}
	if err := e.withdrawFrom(a.settle(), a.number); err != nil {
		return err
	}
	if err := rs.stage(e, a, agreements, rs.attempts.Add(1), a.inSum, func(r peer.Round) error {
		return tell(a.inSum, r, a.survivorsMessage())
	}); err != nil {
		return err
	}
	if err := rs.stage(e, a, seeds, rs.attempts.Add(1), a.inSum, func(r peer.Round) error {
		for at, n := range a.inSum { // each gets the tags meant for it
			if err := tell([]*peer.Node{n}, r, a.agreementMessage(at)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	a.open()
	e.give(a.sum, taken{part: teachersOf(a.nodes), answered: teachersOf(a.inSum)}, nil)
	return nil
}

// tell sends a message of an attempt to nodes.
func tell(nodes []*peer.Node, r peer.Round, m *conclavev1.WorkResponse) error {
	m.Attempt = r.Attempt
	encoded, err := peer.Encode(m)
	if err != nil {
		return err
	}
	peer.Ask(nodes, r, []peer.Encoded{encoded})
	return nil
}

// stage sends nodes their messages, and waits for the answers.
func (rs *Rounds) stage(
	e *Execution, a *attempt, due stage, number uint64, nodes []*peer.Node, send func(peer.Round) error,
) error {
	a.begin(due, number, nodes)
	if err := send(peer.Round{Run: e.key.Run, Number: e.key.Number, Attempt: number}); err != nil {
		return err
	}
	if err := rs.note(e); err != nil {
		return err
	}
	deadline := time.Now().Add(e.spec.Deadline)
	timer := time.AfterFunc(e.spec.Deadline, e.wake)
	defer timer.Stop()
	return rs.until(e, func(now time.Time) (bool, error) {
		e.giveUpIdle(now)
		return a.step(e.dataset.Live(), !now.Before(deadline))
	})
}

// over ends an attempt.
func (e *Execution) over(a *attempt) {
	e.mu.Lock()
	e.masked = nil
	e.mu.Unlock()
	if a.due == answers {
		_ = e.withdrawFrom(a.settle(), a.number) // such a message can always be encoded
	}
}

func teachersOf(nodes []*peer.Node) (teachers uint32) {
	for _, n := range nodes {
		teachers += n.Teachers
	}
	return teachers
}

// takeMasked takes a member's message for the current attempt.
func (e *Execution) takeMasked(n *peer.Node, m *conclavev1.WorkRequest) (fault.Kind, error) {
	e.mu.Lock()
	a := e.masked
	e.mu.Unlock()
	if a == nil {
		return fault.Late, nil
	}
	kind, err := a.take(n, m)
	if err == nil && kind == "" && m.GetSum() != nil {
		e.mu.Lock()
		e.contributed(n)
		e.mu.Unlock()
	}
	switch fault.KindOf(err, "") {
	case fault.Refusal:
		n.Forget(e.key.Run) // the permission was withdrawn or used up
	case fault.Waiting:
		n.Await(e.key.Run, fault.Printable(m.GetRefusal().GetReason())) // it says when it is ready
	}
	e.wake()
	return kind, err
}

// sitesOf names the sites of nodes.
func sitesOf(nodes []*peer.Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.ID.Site
	}
	return names
}
