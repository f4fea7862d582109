package round

import (
	"errors"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
)

// maxAgain bounds how often one round is sent to a stream whose node let it wait and said
// that it is ready: each time it gets the whole round for two small messages.
const maxAgain = 16

// participants are the nodes of a round. They are not safe for use by several goroutines.
type participants struct {
	byID map[peer.ID]*participant
	room []participant // for those that are still to come
	// pending is the number of streams that owe an answer.
	pending int
	// answered is the number of teachers whose answers count.
	answered uint32
	// list is a session that knows the list of revoked certificates, nil where there is no
	// contributor; by the edition of the list all contributors were found good.
	list    *peer.Session
	edition uint64
}

// participant is the state of a node in a round: what it was sent on which stream, and whose
// answers of it count.
type participant struct {
	teachers uint32 // behind the answer that counts, 0 while there is none
	current  stream
	earlier  []stream // of a node that came back while the round was open
	// dropped says that it is not asked in further passes of the round, slow that this is because it
	// did not answer one in time.
	dropped, slow bool
	// contributor is the session of the answer that counts, and contributors of further ones
	// where a round adds up several sums.
	contributor  *peer.Session
	contributors []*peer.Session
}

type stream struct {
	node     *peer.Node
	state    streamState
	asked    time.Time
	done     time.Time // when its last answer came, whether it counts or not
	inquired int       // how often it was asked whether its site permits the run
	waited   int       // how often it let the round wait
	problem  string    // of a failed one: why its answer was refused or rejected
}

type streamState uint8

const (
	unsent   streamState = iota // it was not sent the round, or its site has to decide
	sent                        // it owes an answer
	answered                    // its answer counts
	failed                      // its answer was refused or rejected
)

// of returns a node's part in the round, a new one where it has none.
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

// expect makes room for the given number of nodes, if there are none yet.
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

// mayAnswer is nil, or why an answer on a stream does not count whatever it holds.
func (p *participant) mayAnswer(s *stream, round uint64) error {
	switch {
	case s.state == unsent:
		return fault.Rejectf(fault.Unasked, "node %v answered round %d, which it was not asked", s.node.ID, round)
	case s.state == failed:
		return fault.Rejectf(fault.Duplicate, "node %v answered round %d again after its answer was turned down",
			s.node.ID, round)
	case s.state == answered:
		return fault.Rejectf(fault.Duplicate, "node %v answered round %d twice; the first answer counts", s.node.ID,
			round)
	case p.teachers > 0:
		// It was asked on two streams, and what it had sent down the first one came in late.
		return fault.Rejectf(fault.Late, "node %v answered round %d on an earlier stream as well; the first answer "+
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

// fail says that the answer on a stream was refused or rejected.
func (ps *participants) fail(s *stream, problem string) {
	s.state, s.problem, s.done = failed, problem, time.Now()
	ps.pending--
}

// wait says that the site of a stream's node has to decide: it is asked again when it is ready,
// but for a node that did so too often, whose answer is then refused.
func (ps *participants) wait(s *stream, reason string) (tooOften bool) {
	if s.waited++; s.waited > maxAgain {
		ps.fail(s, "let the round wait too often: "+reason)
		return true
	}
	s.state = unsent
	ps.pending--
	return false
}

// seemsToOwe says whether others are told that it owes an answer: also until the minute in which one came is over. When
// a node answers depends on its records, and nobody is told more finely.
func (s *stream) seemsToOwe(now time.Time) bool {
	return s.state == sent || !s.done.IsZero() && s.done.Truncate(time.Minute).Equal(now.Truncate(time.Minute))
}

// unanswered are the streams that owe an answer.
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

// contribute adds a session whose answer is in the sums. Nodes of tests have none.
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
		ps.edition = 0 // the list came between its message and this
	}
}

// revoked is an error where the certificate of a contributor was revoked. An answer that was
// counted passed the list of its moment, so that all are looked at for newer lists alone.
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
			return fault.Unavailablef("node %v had answered, and its certificate is no longer good: %w", id, err)
		}
	}
	return nil
}
