package aggregator

import (
	"context"
	"fmt"
	"sync"

	"github.com/conclave-dp/conclave/coordinator"
)

// maxSiteNodes bounds the node names of a site in a dataset. Each is kept in etcd for the
// life of the dataset, and a site makes them up.
const maxSiteNodes = 1 << 13

// admitted are the nodes ever admitted to a dataset. They are read when the first node
// comes; later ones come through this server alone.
type admitted struct {
	mu     sync.Mutex
	nodes  map[nodeID]struct{} // nil until they are read
	bySite map[string]int
}

// admitNode is [coordinator.Store.AdmitNode] within the bound on a site's names. Nothing is
// held while etcd is asked: after a change of leaders all nodes come at once.
func (s *Server) admitNode(ctx context.Context, d *dataset, n coordinator.Node) error {
	id := nodeID{site: n.Site, name: n.Name}
	known, err := d.admitted.reserve(id, func() ([]coordinator.Node, error) { return s.store.Nodes(ctx, d.record.Name) })
	if err != nil {
		return fmt.Errorf("dataset %q: %w", d.record.Name, err)
	}
	err = s.store.AdmitNode(ctx, s.lead, n)
	if err != nil && !known {
		d.admitted.giveBack(id)
	}
	return err
}

// reserve takes a place for a node; known says that it has one.
func (a *admitted) reserve(id nodeID, load func() ([]coordinator.Node, error)) (known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes == nil {
		nodes, err := load()
		if err != nil {
			return false, fmt.Errorf("read its nodes: %w", err)
		}
		a.nodes, a.bySite = make(map[nodeID]struct{}, len(nodes)), map[string]int{}
		for _, n := range nodes {
			a.nodes[nodeID{site: n.Site, name: n.Name}] = struct{}{}
			a.bySite[n.Site]++
		}
	}
	if _, known := a.nodes[id]; known {
		return true, nil
	}
	if a.bySite[id.site] >= maxSiteNodes {
		return false, refusedf("site %s has %d nodes already, the most that one may have; bring nodes back under the names they had", id.site, a.bySite[id.site])
	}
	a.nodes[id] = struct{}{}
	a.bySite[id.site]++
	return false, nil
}

func (a *admitted) giveBack(id nodeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.nodes, id)
	a.bySite[id.site]--
}
