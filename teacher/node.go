package teacher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/nn"
	"github.com/conclave-dp/conclave/partition"
)

// Node hosts the teachers of one site's process.
type Node struct {
	cfg     Config
	log     *zap.Logger
	schema  *partition.Schema
	encoder *partition.Encoder
	classes int
	// manifest says which partitions the teachers were trained on.
	manifest *partition.Manifest
	// examples holds each teacher's encoded records by class.
	examples []nn.Examples
	// unitClasses holds the classes of each privacy unit's records.
	unitClasses [][]int
	// run and current are the run that was answered last.
	run     string
	current *runState
}

// New reads the site's records, assigns them to partitions and checks these
// against the manifest of earlier starts. It fails when the data, the key, the
// schema or the number of teachers changed: disjoint partitions are promised
// for the life of the dataset.
func New(cfg Config, log *zap.Logger) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	schema, err := partition.LoadSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	table, err := partition.ReadCSV(schema, cfg.Data, cfg.readOptions())
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.State, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	key, err := partition.LoadOrCreateKey(filepath.Join(cfg.State, "partition.key"))
	if err != nil {
		return nil, err
	}
	assignment, err := partition.Assign(key, table, cfg.Teachers, cfg.Unit)
	if err != nil {
		return nil, err
	}
	manifest, err := partition.BuildManifest(key, cfg.Dataset, cfg.Site, cfg.Node, table, assignment, cfg.Unit)
	if err != nil {
		return nil, err
	}
	if err := keepManifest(filepath.Join(cfg.State, "manifest.json"), manifest); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: log, schema: schema, manifest: manifest,
		encoder: partition.NewEncoder(schema),
		classes: max(1, len(schema.Classes())),
	}
	n.load(table, assignment)
	return n, nil
}

// keepManifest stores the manifest at the first start and compares it with the
// stored one later.
func keepManifest(path string, m *partition.Manifest) error {
	stored, err := partition.LoadManifest(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m.Save(path)
	}
	if err != nil {
		return err
	}
	if err := m.CheckAgainst(stored); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// load encodes the records and sorts them by teacher and class, and by unit.
func (n *Node) load(table *partition.Table, assignment *partition.Assignment) {
	encoded := n.encoder.Encode(table)
	n.examples = make([]nn.Examples, n.cfg.Teachers)
	for t := range n.examples {
		n.examples[t].ByClass = make([][]float32, n.classes)
	}
	units := map[string]int{}
	for row, t := range assignment.Of {
		class := encoded.Classes[row]
		of := n.examples[t].ByClass
		of[class] = append(of[class], encoded.Row(row)...)
		if n.cfg.Unit == "record" {
			n.unitClasses = append(n.unitClasses, []int{class})
			continue
		}
		u, ok := units[table.Unit(row)]
		if !ok {
			u = len(n.unitClasses)
			units[table.Unit(row)] = u
			n.unitClasses = append(n.unitClasses, nil)
		}
		n.unitClasses[u] = append(n.unitClasses[u], class)
	}
}

// Fingerprint returns the keyed fingerprint of the node's partition manifest,
// the only thing about the partitions that leaves the node.
func (n *Node) Fingerprint() string { return n.manifest.Fingerprint }
