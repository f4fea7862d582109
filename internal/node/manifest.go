package node

import (
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/node/rows"
	"github.com/conclave-dp/conclave/partition"
)

// errManifest says that the manifest cannot be stored: the node must not answer.
var errManifest = errors.New("the partition manifest cannot be stored")

// checkManifest compares a manifest with the stored one, and reports whether one is stored.
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

// storedManifest is the manifest of a node's partitions and its path.
type storedManifest struct {
	*partition.Manifest
	path string
	// stored is set once the file is known to exist.
	stored bool
}

// store writes the manifest after the aggregator's first welcome. Before that, a wrong site, data set or certificate
// can be fixed in the same folder, because the aggregator refuses it. If the process dies in between, the aggregator
// knows the fingerprint, made with the stored key, and refuses any other.
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
