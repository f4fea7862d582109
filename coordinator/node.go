package coordinator

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Node is a teacher process that was admitted to a dataset.
type Node struct {
	Dataset string `json:"dataset"`
	Site    string `json:"site"`
	Name    string `json:"name"`
	// Manifest is the keyed fingerprint of its partition manifest.
	Manifest     string `json:"manifest"`
	SchemaSHA256 string `json:"schema_sha256"`
	// Teachers is the number of teachers, one per partition.
	Teachers uint32 `json:"teachers"`
}

func (n Node) check() error {
	if err := checkName("dataset", n.Dataset); err != nil {
		return err
	}
	if err := checkName("site", n.Site); err != nil {
		return err
	}
	return checkName("node", n.Name)
}

// differs names the fields in which n differs from the stored node. Messages do not contain the fingerprints
// themselves.
func (n Node) differs(stored Node) string {
	switch {
	case n.SchemaSHA256 != stored.SchemaSHA256:
		return "schema"
	case n.Teachers != stored.Teachers:
		return "number of teachers"
	case n.Manifest != stored.Manifest:
		return "partition manifest"
	}
	return ""
}

// AdmitNode stores a node the first time. Later it checks that the node is the same, with a [*ManifestMismatchError]
// (ErrForeignManifest) otherwise. This fixes a dataset's partitions for its life.
func (s *Store) AdmitNode(ctx context.Context, lead *Leadership, n Node) error {
	const op = "admit node"
	if err := n.check(); err != nil {
		return err
	}
	if n.Manifest == "" || n.SchemaSHA256 == "" || n.Teachers == 0 {
		return fmt.Errorf("%s %q of site %q: manifest, schema hash and number of teachers are required",
			op, n.Name, n.Site)
	}
	value, err := encode(n)
	if err != nil {
		return err
	}
	key := s.nodeKey(n)
	return update(func() (bool, error) {
		kvs, _, err := s.read(ctx, op, key, s.datasetKey(n.Dataset))
		if err != nil {
			return false, err
		}
		if kvs[1] == nil {
			return false, fmt.Errorf("%s %q of site %q: %w: %q", op, n.Name, n.Site, ErrNoDataset, n.Dataset)
		}
		if kvs[0] == nil {
			return s.commit(ctx, op, lead, []clientv3.Cmp{absent(key)}, clientv3.OpPut(key, value))
		}
		stored, err := decode[Node](kvs[0])
		if err != nil {
			return false, err
		}
		if field := n.differs(stored); field != "" {
			return false, &ManifestMismatchError{Dataset: n.Dataset, Site: n.Site, Node: n.Name, Field: field}
		}
		return true, nil
	})
}

// Nodes returns the nodes ever admitted to a dataset, by site and name.
func (s *Store) Nodes(ctx context.Context, dataset string) ([]Node, error) {
	if err := checkName("dataset", dataset); err != nil {
		return nil, err
	}
	kvs, err := s.list(ctx, "list nodes", s.nodesPrefix(dataset))
	if err != nil {
		return nil, err
	}
	nodes := make([]Node, len(kvs))
	for i, kv := range kvs {
		if nodes[i], err = decode[Node](kv); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// CheckNode is [Store.AdmitNode] without a write: it returns whether a node was admitted before, with a
// [*ManifestMismatchError] if it differs.
func (s *Store) CheckNode(ctx context.Context, n Node) (known bool, err error) {
	if err := n.check(); err != nil {
		return false, err
	}
	kvs, _, err := s.read(ctx, "check node", s.nodeKey(n))
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
