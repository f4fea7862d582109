package peer

import (
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/internal/aggregator/fault"
)

// maxSiteNodes bounds the node names of a site in a dataset. Each is kept in etcd for the
// life of the dataset, and a site makes them up.
const maxSiteNodes = 1 << 13

// Names are the nodes that were ever admitted to a dataset. They are read when the first node
// comes; later ones come through this server alone. The zero value is ready for use.
type Names struct {
	mu     sync.Mutex
	nodes  map[ID]struct{} // nil until they are read
	bySite map[string]int
}

// Reserve takes a place for a node; known says that it has one. load reads the nodes that
// were admitted before.
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
		return false, fault.Refusedf("site %s has %d nodes already, the most that one may have; bring nodes back "+
			"under the names they had",
			id.Site, a.bySite[id.Site])
	}
	a.nodes[id] = struct{}{}
	a.bySite[id.Site]++
	return false, nil
}

// GiveBack gives the place of a node back that Reserve did not know and that was not admitted.
func (a *Names) GiveBack(id ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.nodes, id)
	a.bySite[id.Site]--
}
