package peer

import "time"

// maxGone bounds the departures that are remembered of a dataset.
const maxGone = 1 << 14

// Departure is when and why a node was gone, or was not let in.
type Departure struct {
	At  time.Time
	Why string
}

// Unanswered is a question to a node that has no answer.
type Unanswered struct {
	Run   string
	Since time.Time
}

// Depart notes why a node that is not connected is not. This server alone remembers it.
func (r *Roster) Depart(id ID, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.gone[id]; r.nodes[id] == nil && (known || len(r.gone) < maxGone) {
		r.gone[id] = Departure{time.Now(), why}
	}
}

// Departed returns when and why a node was gone; false where this server saw it not.
func (r *Roster) Departed(id ID) (Departure, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.gone[id]
	return d, ok
}
