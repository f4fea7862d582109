package aggregator

import (
	"errors"
	"maps"

	"github.com/conclave-dp/conclave/internal/certs"
)

// heard notes whose answer is in the sums, also for the execution that this is a pass of.
// Callers hold e.mu.
func (e *execution) heard(n *node) {
	if n.standing == nil {
		return
	}
	e.addVoice(n.standing, n.id)
	if e.outer != nil {
		e.outer.mu.Lock()
		defer e.outer.mu.Unlock()
		e.outer.addVoice(n.standing, n.id)
	}
}

// addVoice is called with e.mu held.
func (e *execution) addVoice(st *standing, id nodeID) {
	if e.voices == nil {
		e.voices = map[*standing]nodeID{}
	}
	e.voices[st], e.heardBy = id, st.from
	if st.from.guard.Revoked(st.peer) != nil {
		e.edition = 0 // the list came between its message and this
	}
}

// heardBefore notes whose answers are in sums that were collected earlier.
func (e *execution) heardBefore(voices map[*standing]nodeID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for st, id := range voices {
		e.addVoice(st, id)
	}
}

func (e *execution) allHeard() map[*standing]nodeID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.voices)
}

// disowned is why the sums cannot be released: a certificate behind one of the answers was
// revoked since. The round is then asked again, without that node. An answer that was heard
// passed the list of its moment, so that voices are gone through for newer lists alone.
func (e *execution) disowned() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heardBy == nil {
		return nil
	}
	edition := e.heardBy.guard.Edition()
	if edition == e.edition {
		return nil
	}
	if err := revokedVoice(e.voices); err != nil {
		return unavailablef("round %d of run %q is asked again: %w", e.key.number, e.key.run, err)
	}
	e.edition = edition
	return nil
}

func revokedVoice(voices map[*standing]nodeID) error {
	for st, id := range voices {
		if err := st.from.guard.Revoked(st.peer); errors.Is(err, certs.ErrRevoked) {
			return unavailablef("node %v had answered, and its certificate is not good any more: %w", id, err)
		}
	}
	return nil
}
