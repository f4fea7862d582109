package node

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/node/rows"
	"github.com/conclave-dp/conclave/partition"
)

// errManifest marks a manifest that cannot be kept: the node must not answer.
var errManifest = errors.New("the partition manifest cannot be kept")

// checkManifest compares a manifest with the stored one and says whether there
// is one.
func checkManifest(path string, m *partition.Manifest) (stored bool, err error) {
	old, err := rows.LoadManifest(path)
	if err != nil || old == nil {
		return false, err
	}
	if err := m.CheckAgainst(old); err != nil {
		return true, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// storedManifest is the manifest of a node's partitions, and where it is stored.
type storedManifest struct {
	*partition.Manifest
	path string
	// stored is set once the file is known to be there.
	stored bool
}

// store writes the manifest when the aggregator has welcomed the node
// for the first time. Before that a wrong site, data set or certificate can be
// fixed in the same folder: the aggregator refuses it, and it binds nobody.
// When the process dies in between, the aggregator knows the fingerprint, which
// was made with the key that is stored already, and refuses another.
func (m *storedManifest) store() error {
	if m.stored {
		return nil
	}
	stored, err := checkManifest(m.path, m.Manifest)
	if err == nil && !stored {
		err = m.Save(m.path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errManifest, err)
	}
	m.stored = true
	return nil
}
