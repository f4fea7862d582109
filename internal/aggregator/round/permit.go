package round

import (
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/masking"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// permits are the run decisions of sites whose nodes were not sent the round yet. A site is charged for its node's
// answer. So the round is only sent once the permitting nodes, together with those that have it, are a quorum.
type permits struct {
	willing    []*stream    // permitted, and due once there is a quorum
	unasked    []*peer.Node // to be asked about the run
	unanswered int          // asked, now or before, without an answer
	silent     []string     // asked before, without an answer
	waitingFor []string     // people must decide

	// The teachers of willing nodes, and of nodes whose people must decide.
	permitted, waiting uint32
}

// look adds the site's decision for a stream that was not sent the round. Callers hold e.mu.
func (e *Execution) look(s *stream, ps *permits) {
	is, why := s.node.Permission(e.key.Run, e.permit)
	switch is {
	case peer.NotAsked:
		if s.inquired++; s.inquired > maxAgain {
			s.state, s.problem = failed, "reported too often that it waits"
			return
		}
		ps.unasked = append(ps.unasked, s.node)
	case peer.Asked:
		ps.silent = append(ps.silent, s.node.ID.String()+" has not said yet whether it may answer")
	case peer.Permitted:
		ps.willing = append(ps.willing, s)
		ps.permitted += s.node.Teachers
		return
	case peer.Undecided:
		ps.waitingFor = append(ps.waitingFor, s.node.ID.String()+" "+strings.TrimSpace(why))
		ps.waiting += s.node.Teachers
		return
	case peer.Denied:
		s.state, s.problem = failed, why
		return
	}
	ps.unanswered++
}

// inquire asks nodes whether their sites permit the run.
func (e *Execution) inquire(nodes []*peer.Node) error {
	if len(nodes) == 0 {
		return nil
	}
	if e.permitMessage == nil {
		m, err := peer.Encode(&conclavev1.WorkResponse{
			Attempt: e.permit, Terms: e.terms,
			Message: &conclavev1.WorkResponse_Permit{Permit: &conclavev1.Permit{
				Run: e.key.Run, Round: e.key.Number, Kind: e.kind(), Planned: uint32(e.planned),
				Queries: uint32(e.question.Queries()), Question: e.digest[:],
			}},
		})
		if err != nil {
			return err
		}
		e.permitMessage = []peer.Encoded{m}
	}
	for _, n := range nodes {
		n.Inquire(e.key.Run, e.permit)
	}
	peer.Ask(nodes, peer.Round{Run: e.key.Run, Number: e.key.Number, Attempt: e.permit}, e.permitMessage)
	return nil
}

// decide takes a site's decision about a run, for an attempt that its node was sent. ours is false if that attempt
// was a round's, or the run is over. The error says why the node is left out.
func (d *Dataset) decide(n *peer.Node, key payload.Key, answer *conclavev1.WorkRequest) (ours bool, err error) {
	is, why := peer.Permitted, ""
	if refusal := answer.GetRefusal(); refusal != nil {
		is, why = peer.Denied, fault.Printable(refusal.GetReason())
		if refusal.GetWaiting() {
			is, err = peer.Undecided, fault.Rejectf(fault.Waiting, "node %v waits: %s", n.ID, why)
		} else {
			why = "refused: " + why
			err = fault.Rejectf(fault.Refusal, "node %v %s", n.ID, why)
		}
	} else if answer.GetPermitted() == nil {
		is, why = peer.Denied, "sent an answer to a permit request"
		err = fault.Rejectf(fault.Malformed, "node %v %s", n.ID, why)
	}
	runKey := answer.GetPermitted().GetKey()
	if unfit := masking.Fits(runKey); unfit != nil {
		is, why, runKey = peer.Denied, "sent "+unfit.Error(), nil
		err = fault.Rejectf(fault.Oversized, "node %v %s", n.ID, why)
	}
	if !n.Decide(key.Run, answer.GetAttempt(), is, why, runKey) {
		return false, nil
	}
	for _, e := range d.openIn(key.Run) { // perhaps for another round than the one that asked
		e.decided(n, is)
	}
	return true, err
}

func (d *Dataset) openIn(run string) (open []*Execution) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, e := range d.executions {
		if key.Run == run {
			open = append(open, e)
		}
	}
	return open
}

// decided checks whether a step is due after a site's decision, so that a thousand decisions do not cause a thousand
// steps.
func (e *Execution) decided(n *peer.Node, is peer.Permission) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.schedule
	s.unanswered--
	if is == peer.Permitted {
		s.missing -= int64(n.Teachers)
	} else {
		s.left--
	}
	if s.unanswered <= 0 || s.deadline.IsZero() && s.missing <= 0 || s.due(time.Now()) {
		e.wake()
	}
}
