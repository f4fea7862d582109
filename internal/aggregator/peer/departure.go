package peer

import "time"

// maxGone bounds the remembered departures of a dataset.
const maxGone = 1 << 14

// Departure is when and why a node left or was refused.
type Departure struct {
	At  time.Time
	Why string
}

// Unanswered is a question that a node has not answered.
type Unanswered struct {
	Run   string
	Since time.Time
}

// Depart records why a node is not connected. Only this server remembers it.
func (r *Roster) Depart(id ID, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.gone[id]; r.nodes[id] == nil && (known || len(r.gone) < maxGone) {
		r.gone[id] = Departure{time.Now(), why}
	}
}

// Departed returns when and why a node left; false if this server did not see it.
func (r *Roster) Departed(id ID) (Departure, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.gone[id]
	return d, ok
}
