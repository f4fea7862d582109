package round

import (
	"maps"
	"slices"
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/masking"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// stage is what the members of an attempt still have to send.
type stage uint8

const (
	answers    stage = iota // masked vectors, of a quorum or more
	agreements              // tags for the members in the sum, from all members in it
	seeds                   // what opens the sum, from all members in it
)

// attempt is one attempt at a masked round: its members and what they sent so far. Nothing in it reveals what the
// aggregator must not see.
type attempt struct {
	q      Masked
	number uint64
	terms  *masking.Terms
	digest masking.Digest // digest of the terms
	nodes  []*peer.Node   // the members asked, sorted by site

	mu       sync.Mutex
	due      stage
	asked    uint64              // the attempt number of the message that asked for this stage
	owes     map[*peer.Node]bool // members that did not send it yet
	problems []string
	spoiled  []*peer.Node // members that are not asked again
	late     []string     // sites that left or were late although their answers are in the sum
	refused  int          // members that refused to answer
	sum      []int64
	inSum    []*peer.Node // in order of answers; sorted by site once settled
	agreed   map[string][][]byte
	doubts   map[string][]string // by survivor: the sites whose tags it says are wrong
	revealed map[string]*conclavev1.Revealed
}

// begin sets what nodes must send from now on.
func (a *attempt) begin(due stage, asked uint64, nodes []*peer.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.asked = due, asked
	for _, n := range nodes {
		a.owes[n] = true
	}
}

// step reports whether everything has arrived; if late, it waits no longer. A [brokenError] says that the attempt
// does not open.
func (a *attempt) step(live []*peer.Node, late bool) (done bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := range a.owes {
		if !slices.Contains(live, n) {
			a.lose(n, "left")
			if a.due != answers {
				a.late = append(a.late, n.ID.Site)
			}
		}
	}
	quorum := a.terms.Group.Quorum
	switch all := len(a.owes) == 0; {
	case a.due == answers && len(a.inSum)+len(a.owes) < quorum,
		// Only everyone's doubts together reveal a liar.
		a.due != answers && len(a.problems) > len(a.doubts), len(a.doubts) > 0 && all:
		return false, &brokenError{a.problems}
	case a.due == answers:
		return all || late && len(a.inSum) >= quorum, nil
	case late && !all:
		for n := range a.owes {
			a.problems = append(a.problems, n.ID.String()+" did not open its answer in time")
			a.late = append(a.late, n.ID.Site)
		}
		return false, &brokenError{a.problems}
	default:
		return all, nil
	}
}

// turnedDown reports whether refusals leave the attempt below a quorum, for example because members have used up
// their openings for the round.
func (a *attempt) turnedDown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.nodes)-a.refused < a.terms.Group.Quorum
}

// lose records that a node sends nothing that counts. Callers hold a.mu.
func (a *attempt) lose(n *peer.Node, why string) {
	delete(a.owes, n)
	a.problems = append(a.problems, n.ID.String()+" "+why)
}

// settle stops taking answers and returns the late members, which are not in the sum.
func (a *attempt) settle() (late []*peer.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.inSum, func(x, y *peer.Node) int {
		return slices.Index(a.nodes, x) - slices.Index(a.nodes, y)
	})
	late = slices.Collect(maps.Keys(a.owes))
	clear(a.owes)
	a.problems = nil
	return late
}

// take takes a member's message. The error says why it does not count; fault.Stale without an error marks a message
// for an earlier attempt or stage.
func (a *attempt) take(n *peer.Node, m *conclavev1.WorkRequest) (fault.Kind, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.GetAttempt() != a.asked {
		return fault.Stale, nil
	}
	if !a.owes[n] {
		return "", fault.Rejectf(fault.Duplicate, "node %v answered twice", n.ID)
	}
	if r := m.GetRefusal(); r != nil {
		why := fault.Printable(r.GetReason())
		a.lose(n, "refused: "+why)
		switch {
		case r.GetWaiting(): // until its people decide
			return "", fault.Rejectf(fault.Waiting, "node %v waits: %s", n.ID, why)
		case a.due == answers:
			a.refused++
		case a.due == seeds && a.doubtedBy(n, r.GetDoubted()):
		default: // it would stop every attempt
			a.spoiled = append(a.spoiled, n)
		}
		return "", fault.Rejectf(fault.Refusal, "node %v refused: %s", n.ID, why)
	}
	if err := a.count(n, m); err != nil {
		a.lose(n, "sent a malformed answer: "+err.Error())
		a.spoiled = append(a.spoiled, n)
		return "", fault.Rejectf(fault.KindOf(err, fault.Malformed), "node %v sent a malformed answer: %w", n.ID, err)
	}
	delete(a.owes, n)
	return "", nil
}

// count processes a member's answer, tags or seeds, whichever is due. Callers hold a.mu.
func (a *attempt) count(n *peer.Node, m *conclavev1.WorkRequest) error {
	site := n.ID.Site
	switch a.due {
	case answers:
		values, err := a.q.Read(m, n.Teachers)
		if err != nil {
			return err
		}
		masking.AddUp(a.sum, values)
		a.inSum = append(a.inSum, n)
	case agreements:
		tags := m.GetAgreed().GetTags()
		if err := masking.CheckTags(sitesOf(a.inSum), tags); err != nil {
			return err
		}
		a.agreed[site] = tags
	case seeds:
		if err := a.terms.CheckRevealed(site, sitesOf(a.inSum), m.GetRevealed()); err != nil {
			return err
		}
		a.revealed[site] = m.GetRevealed()
	}
	return nil
}

func (a *attempt) survivorsMessage() *conclavev1.WorkResponse {
	return &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Survivors{Survivors: &conclavev1.Survivors{
		Run: a.terms.Run, Round: a.terms.Round, Sites: sitesOf(a.inSum),
	}}}
}

// agreementMessage is the message for the survivor at this position.
func (a *attempt) agreementMessage(at int) *conclavev1.WorkResponse {
	made := make([][][]byte, len(a.inSum))
	for i, site := range sitesOf(a.inSum) {
		made[i] = a.agreed[site]
	}
	return &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Agreement{Agreement: &conclavev1.Agreement{
		Run: a.terms.Run, Round: a.terms.Round, Tags: masking.TagsFor(at, made),
	}}}
}

// open removes the masks from the sum.
func (a *attempt) open() {
	survivors := sitesOf(a.inSum)
	revealed := make([]*conclavev1.Revealed, len(survivors))
	for i, site := range survivors {
		revealed[i] = a.revealed[site]
	}
	a.terms.Open(a.sum, survivors, revealed)
}

// leaveOut records the members that spoiled the attempt, and the sites of late ones.
func (a *attempt) leaveOut(spoiled map[*peer.Node]bool, late map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range slices.Concat(a.spoiled, a.liars()) {
		spoiled[n] = true
	}
	for _, site := range a.late {
		late[site] = true
	}
}

// doubtedBy records which tags a survivor calls wrong, and reports whether it names any. Only the two members
// involved can tell. Callers hold a.mu.
func (a *attempt) doubtedBy(n *peer.Node, sites []string) bool {
	for _, other := range sitesOf(a.inSum) {
		if other != n.ID.Site && slices.Contains(sites, other) {
			a.doubts[n.ID.Site] = append(a.doubts[n.ID.Site], other)
		}
	}
	return a.doubts[n.ID.Site] != nil
}

// liars returns the members in the most doubts. Each doubt is between a liar and its counterpart, so a member that
// lies about many, or to many, is in more doubts than any of those. Callers hold a.mu.
func (a *attempt) liars() (all []*peer.Node) {
	parts, most := map[string]int{}, 1
	for site, others := range a.doubts {
		parts[site] += len(others)
		for _, other := range others {
			parts[other]++
		}
	}
	for _, n := range parts {
		most = max(most, n)
	}
	for _, n := range a.inSum {
		if parts[n.ID.Site] == most {
			all = append(all, n)
		}
	}
	return all
}
