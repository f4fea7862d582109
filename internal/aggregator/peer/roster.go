package peer

import (
	"cmp"
	"slices"
	"sync"
)

// Roster is the set of live nodes of a dataset.
type Roster struct {
	mu    sync.Mutex
	nodes map[ID]*Node
	gone  map[ID]Departure
	order []*Node // sorted by site and name; replaced on change, never modified
}

// NewRoster returns a roster without nodes.
func NewRoster() *Roster { return &Roster{nodes: map[ID]*Node{}, gone: map[ID]Departure{}} }

// Join makes n the live stream of its node and returns the stream that it replaces, or nil.
func (r *Roster) Join(n *Node) (replaced *Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	replaced = r.nodes[n.ID]
	r.nodes[n.ID] = n
	delete(r.gone, n.ID)
	at, found := r.place(n.ID)
	next := slices.Grow(slices.Clone(r.order), 1)
	if found {
		next[at] = n
	} else {
		next = slices.Insert(next, at, n)
	}
	r.order = next
	return replaced
}

// Leave removes n unless a newer stream of the same node replaced it.
func (r *Roster) Leave(n *Node) (gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[n.ID] != n {
		return false
	}
	delete(r.nodes, n.ID)
	at, _ := r.place(n.ID)
	r.order = slices.Concat(r.order[:at], r.order[at+1:])
	return true
}

// place is the index at which a node is or belongs. Callers hold r.mu.
func (r *Roster) place(id ID) (at int, found bool) {
	return slices.BinarySearchFunc(r.order, id, func(n *Node, id ID) int {
		return cmp.Or(cmp.Compare(n.ID.Site, id.Site), cmp.Compare(n.ID.Name, id.Name))
	})
}

// Live returns the nodes sorted by site and name. Callers must not modify it.
func (r *Roster) Live() []*Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order
}

// Teachers is the number of teachers of the live nodes.
func (r *Roster) Teachers() uint32 {
	total := uint32(0)
	for _, n := range r.Live() {
		total += n.Teachers
	}
	return total
}
