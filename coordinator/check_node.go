package coordinator

import "context"

// CheckNode is [Store.AdmitNode] without an effect: whether a node was admitted before,
// with a [*ManifestMismatchError] where it was another.
func (s *Store) CheckNode(ctx context.Context, n Node) (known bool, err error) {
	if err := n.check(); err != nil {
		return false, err
	}
	kvs, _, err := s.read(ctx, "check node", s.nodeKey("nodes", n))
	if err != nil || kvs[0] == nil {
		return false, err
	}
	stored, err := decode[Node](kvs[0])
	if err != nil {
		return false, err
	}
	if field := n.differs(stored); field != "" {
		return true, &ManifestMismatchError{Dataset: n.Dataset, Site: n.Site, Node: n.Name, Field: field}
	}
	return true, nil
}
