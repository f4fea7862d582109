package peer

import (
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// maxSiteNodes bounds the node names of a site in a dataset. The site chooses them, and etcd keeps each for the life
// of the dataset.
const maxSiteNodes = 1 << 13

// Names are the nodes ever admitted to a dataset. They are loaded when the first node joins; later ones are added by
// this server. The zero value is ready for use.
type Names struct {
	mu     sync.Mutex
	nodes  map[ID]struct{} // nil until loaded
	bySite map[string]int
}

// Reserve reserves a place for a node; known reports that it already has one. load reads the nodes admitted earlier.
func (a *Names) Reserve(id ID, load func() ([]ID, error)) (known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes == nil {
		nodes, err := load()
		if err != nil {
			return false, fmt.Errorf("read its nodes: %w", err)
		}
		a.nodes, a.bySite = make(map[ID]struct{}, len(nodes)), map[string]int{}
		for _, id := range nodes {
			a.nodes[id] = struct{}{}
			a.bySite[id.Site]++
		}
	}
	if _, known := a.nodes[id]; known {
		return true, nil
	}
	if a.bySite[id.Site] >= maxSiteNodes {
		return false, fault.Refusedf("site %s already has %d nodes, which is the maximum; start nodes with their "+
			"earlier names",
			id.Site, a.bySite[id.Site])
	}
	a.nodes[id] = struct{}{}
	a.bySite[id.Site]++
	return false, nil
}

// GiveBack releases a place that Reserve made for a node that was not admitted.
func (a *Names) GiveBack(id ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.nodes, id)
	a.bySite[id.Site]--
}
