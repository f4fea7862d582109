package round

import (
	"errors"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
)

// maxAgain bounds how often a round is sent to a stream whose node made it wait and then became ready: each time two
// small messages cost the whole round.
const maxAgain = 16

// participants are the nodes of a round. They are not safe for concurrent use.
type participants struct {
	byID map[peer.ID]*participant
	room []participant // for nodes still to come
	// pending is the number of streams that still have to answer.
	pending int
	// answered is the number of teachers whose answers count.
	answered uint32
	// list is a session that knows the revocation list, nil without contributors. All contributors were valid by this
	// edition of the list.
	list    *peer.Session
	edition uint64
}

// participant is the state of a node in a round: what it was sent on which stream, and which of its answers counts.
type participant struct {
	teachers uint32 // behind the answer that counts, 0 without one
	current  stream
	earlier  []stream // of a node that reconnected during the round
	// dropped excludes it from further passes of the round; slow says that it is because it missed a pass.
	dropped, slow bool
	// contributor is the session of the answer that counts; contributors are those of further answers if a round adds
	// up several sums.
	contributor  *peer.Session
	contributors []*peer.Session
}

type stream struct {
	node     *peer.Node
	state    streamState
	asked    time.Time
	done     time.Time // time of its last answer, whether it counts or not
	inquired int       // how often it was asked for its site's permission
	waited   int       // how often it made the round wait
	problem  string    // if failed: why its answer was refused or rejected
}

type streamState uint8

const (
	unsent   streamState = iota // it was not sent the round, or its site must decide
	sent                        // its answer is pending
	answered                    // its answer counts
	failed                      // its answer was refused or rejected
)

// of returns a node's part in the round, and adds a new one if needed.
func (ps *participants) of(id peer.ID) *participant {
	if p := ps.byID[id]; p != nil {
		return p
	}
	if len(ps.room) == 0 {
		ps.room = make([]participant, max(1, len(ps.byID)))
	}
	p := &ps.room[0]
	ps.room = ps.room[1:]
	if ps.byID == nil {
		ps.byID = map[peer.ID]*participant{}
	}
	ps.byID[id] = p
	return p
}

// expect allocates room for this number of nodes, if there is none yet.
func (ps *participants) expect(n int) {
	if len(ps.byID) == 0 {
		ps.byID = make(map[peer.ID]*participant, n)
		ps.room = make([]participant, n)
	}
}

func (p *participant) on(n *peer.Node) *stream {
	if p.current.node == n {
		return &p.current
	}
	for i := range p.earlier {
		if p.earlier[i].node == n {
			return &p.earlier[i]
		}
	}
	if p.current.node != nil {
		p.earlier = append(p.earlier, p.current)
	}
	p.current = stream{node: n}
	return &p.current
}

func (ps *participants) ask(s *stream) {
	s.state, s.asked = sent, time.Now()
	ps.pending++
}

// mayAnswer returns nil, or why an answer on a stream cannot count.
func (p *participant) mayAnswer(s *stream, round uint64) error {
	switch {
	case s.state == unsent:
		return fault.Rejectf(fault.Unasked, "node %v answered round %d without being asked", s.node.ID, round)
	case s.state == failed:
		return fault.Rejectf(fault.Duplicate, "node %v answered round %d again after its answer was rejected",
			s.node.ID, round)
	case s.state == answered:
		return fault.Rejectf(fault.Duplicate, "node %v answered round %d twice; the first answer counts", s.node.ID,
			round)
	case p.teachers > 0:
		// It was asked on two streams, and its answer on the first one came late.
		return fault.Rejectf(fault.Late, "node %v already answered round %d on an earlier stream; the first answer "+
			"counts",
			s.node.ID, round)
	}
	return nil
}

func (ps *participants) count(p *participant, s *stream) {
	s.state, s.done = answered, time.Now()
	ps.pending--
	p.teachers = s.node.Teachers
	ps.answered += p.teachers
}

// fail records that the answer on a stream was refused or rejected.
func (ps *participants) fail(s *stream, problem string) {
	s.state, s.problem, s.done = failed, problem, time.Now()
	ps.pending--
}

// wait records that the site of a stream's node must decide. The node is asked again when it is ready; if it waited
// too often, its answer is refused instead.
func (ps *participants) wait(s *stream, reason string) (tooOften bool) {
	if s.waited++; s.waited > maxAgain {
		ps.fail(s, "reported too often that it waits: "+reason)
		return true
	}
	s.state = unsent
	ps.pending--
	return false
}

// seemsToOwe reports whether others still see its answer as pending, which lasts until the minute of the answer is
// over. The time of an answer depends on records, so nobody learns it more finely.
func (s *stream) seemsToOwe(now time.Time) bool {
	return s.state == sent || !s.done.IsZero() && s.done.Truncate(time.Minute).Equal(now.Truncate(time.Minute))
}

// unanswered returns the streams with a pending answer.
func (ps *participants) unanswered() (nodes []*peer.Node) {
	if ps.pending == 0 {
		return nil
	}
	for _, p := range ps.byID {
		if p.current.state == sent {
			nodes = append(nodes, p.current.node)
		}
		for _, s := range p.earlier {
			if s.state == sent {
				nodes = append(nodes, s.node)
			}
		}
	}
	return nodes
}

// contribute adds a session whose answer is in the sums. Test nodes have none.
func (ps *participants) contribute(id peer.ID, s *peer.Session) {
	if s == nil {
		return
	}
	switch p := ps.of(id); {
	case p.contributor == s:
	case p.contributor == nil:
		p.contributor = s
	case !slices.Contains(p.contributors, s):
		p.contributors = append(p.contributors, s)
	}
	ps.list = s
	if s.Revoked() != nil {
		ps.edition = 0 // a new list arrived after the message
	}
}

// revoked fails if a contributor's certificate was revoked. Each counted answer was checked against the list of its
// moment, so only a newer list needs a check of all.
func (ps *participants) revoked() error {
	if ps.list == nil {
		return nil
	}
	edition := ps.list.Edition()
	if edition == ps.edition {
		return nil
	}
	if err := revokedAmong(ps.contributors()); err != nil {
		return err
	}
	ps.edition = edition
	return nil
}

// contributors are the sessions whose answers are in the sums.
func (ps *participants) contributors() map[*peer.Session]peer.ID {
	all := make(map[*peer.Session]peer.ID, len(ps.byID))
	for id, p := range ps.byID {
		if p.contributor != nil {
			all[p.contributor] = id
		}
		for _, s := range p.contributors {
			all[s] = id
		}
	}
	return all
}

func revokedAmong(contributors map[*peer.Session]peer.ID) error {
	for s, id := range contributors {
		if err := s.Revoked(); errors.Is(err, certs.ErrRevoked) {
			return fault.Unavailablef("node %v answered, but its certificate is no longer valid: %w", id, err)
		}
	}
	return nil
}
