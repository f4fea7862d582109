package aggregator

import (
	"errors"
	"maps"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
)

// contributors are the sessions whose answers are in the sums of a round, of all its passes.
type contributors struct {
	nodes map[*peer.Session]peer.ID
	// edition is that of the list of revoked certificates by which all were found good.
	edition uint64
}

// expect makes room.
func (c *contributors) expect(n int) {
	if c.nodes == nil {
		c.nodes = make(map[*peer.Session]peer.ID, n)
	}
}

func (c *contributors) add(s *peer.Session, id peer.ID) {
	c.expect(0)
	c.nodes[s] = id
	if s.Revoked() != nil {
		c.edition = 0 // the list came between its message and this
	}
}

// revoked is an error where the certificate of a contributor was revoked. An answer that was
// counted passed the list of its moment, so that all are looked at for newer lists alone.
func (c *contributors) revoked() error {
	for s := range c.nodes {
		edition := s.Edition()
		if edition == c.edition {
			return nil
		}
		if err := revokedAmong(c.nodes); err != nil {
			return err
		}
		c.edition = edition
		return nil
	}
	return nil
}

func revokedAmong(nodes map[*peer.Session]peer.ID) error {
	for s, id := range nodes {
		if err := s.Revoked(); errors.Is(err, certs.ErrRevoked) {
			return fault.Unavailablef("node %v had answered, and its certificate is no longer good: %w", id, err)
		}
	}
	return nil
}

// contributed adds the session behind an answer, also to the execution that this is a pass
// of. Callers hold e.mu.
func (e *execution) contributed(n *peer.Node) {
	if n.Session == nil {
		return
	}
	e.contributors.add(n.Session, n.ID)
	if e.outer != nil {
		e.outer.mu.Lock()
		defer e.outer.mu.Unlock()
		e.outer.contributors.add(n.Session, n.ID)
	}
}

// heardBefore adds the contributors to sums that were collected earlier.
func (e *execution) heardBefore(earlier map[*peer.Session]peer.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for s, id := range earlier {
		e.contributors.add(s, id)
	}
}

func (e *execution) allHeard() map[*peer.Session]peer.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.contributors.nodes)
}

// revoked is why the sums cannot be released: a certificate behind one of the answers was
// revoked since. The round is then asked again, without that node.
func (e *execution) revoked() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.contributors.revoked(); err != nil {
		return fault.Unavailablef("round %d of run %q is asked again: %w", e.key.number, e.key.run, err)
	}
	return nil
}
