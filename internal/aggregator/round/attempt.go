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

// stage is what the members of an attempt owe.
type stage uint8

const (
	answers    stage = iota // masked vectors, of a quorum or more
	agreements              // tags of who is in the sum, of all in it
	seeds                   // what opens the sum, of all in it
)

// attempt is one at a masked round: among whom it is made, and what came so far. In all of this there is
// nothing that the aggregator must not see.
type attempt struct {
	q      Masked
	number uint64
	terms  *masking.Terms
	digest masking.Digest // of the terms
	nodes  []*peer.Node   // of the members that are asked, in the order of sites

	mu       sync.Mutex
	due      stage
	asked    uint64              // the attempt by which what is due was asked
	owes     map[*peer.Node]bool // those that did not send it
	problems []string
	spoiled  []*peer.Node // those that are not asked again
	late     []string     // sites that left, or said nothing in time, with their answers in the sum
	refused  int          // members that refused to answer
	sum      []int64
	inSum    []*peer.Node // in the order of answers; of sites, once settled
	agreed   map[string][][]byte
	doubts   map[string][]string // of survivors, of whose tags they say that these are not right
	revealed map[string]*conclavev1.Revealed
}

// begin says what is due of nodes from now on.
func (a *attempt) begin(due stage, asked uint64, nodes []*peer.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.asked = due, asked
	for _, n := range nodes {
		a.owes[n] = true
	}
}

// step says whether all is there that can come; late that no more is waited for. A [brokenError] says
// that the attempt does not open.
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
		// Who lies shows by the doubts of all.
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

// turnedDown says whether the attempt lacks a quorum as members refused: they have opened all the attempts at the
// round that they ever will, say.
func (a *attempt) turnedDown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.nodes)-a.refused < a.terms.Group.Quorum
}

// lose notes that a node sends nothing that counts. Callers hold a.mu.
func (a *attempt) lose(n *peer.Node, why string) {
	delete(a.owes, n)
	a.problems = append(a.problems, n.ID.String()+" "+why)
}

// settle ends the taking of answers, and returns those that are late: they are not in the sum.
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

// take takes what a member sent. The error says why it does not count; fault.Stale without one is what
// came for an attempt, or a stage, before.
func (a *attempt) take(n *peer.Node, m *conclavev1.WorkRequest) (fault.Kind, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.GetAttempt() != a.asked {
		return fault.Stale, nil
	}
	if !a.owes[n] {
		return "", fault.Rejectf(fault.Duplicate, "node %v answered again", n.ID)
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

// count takes what is due of a member. Callers hold a.mu.
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

// agreementMessage is for the survivor at a place among them.
func (a *attempt) agreementMessage(at int) *conclavev1.WorkResponse {
	made := make([][][]byte, len(a.inSum))
	for i, site := range sitesOf(a.inSum) {
		made[i] = a.agreed[site]
	}
	return &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Agreement{Agreement: &conclavev1.Agreement{
		Run: a.terms.Run, Round: a.terms.Round, Tags: masking.TagsFor(at, made),
	}}}
}

// open takes the masks off the sum.
func (a *attempt) open() {
	survivors := sitesOf(a.inSum)
	revealed := make([]*conclavev1.Revealed, len(survivors))
	for i, site := range survivors {
		revealed[i] = a.revealed[site]
	}
	a.terms.Open(a.sum, survivors, revealed)
}

// leaveOut notes those that spoiled the attempt, and the sites of those that were late.
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

// doubtedBy notes of whose tags a survivor says that they are not right, and whether it names any. Nobody but the two
// can tell. Callers hold a.mu.
func (a *attempt) doubtedBy(n *peer.Node, sites []string) bool {
	for _, other := range sitesOf(a.inSum) {
		if other != n.ID.Site && slices.Contains(sites, other) {
			a.doubts[n.ID.Site] = append(a.doubts[n.ID.Site], other)
		}
	}
	return a.doubts[n.ID.Site] != nil
}

// liars are those with a part in the most doubts: of two that differ one lies, and who lies about many, or to many, is
// in more doubts than each of these. Callers hold a.mu.
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
