package rows

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
)

// Identity says who a node is.
type Identity struct {
	// Dataset is the name of the dataset at the aggregator. Required.
	Dataset string `yaml:"dataset"`
	// Site is the name of the institution. The certificate must be issued to it. Required.
	Site string `yaml:"site"`
	// Node is the name of this process among the nodes of its site. Two processes with one name disconnect each other.
	// A new name is a new node, whatever its data.
	Node string `yaml:"node"`
}

// Records say what records a node has, and how they are divided among teachers.
type Records struct {
	// Schema is the path of the public schema.yaml, the same file at every site. Required.
	Schema string `yaml:"schema"`
	// Data is the path of the site's file: CSV (plain or gzipped), Parquet, a sheet of an .xlsx workbook, or a folder
	// or pattern of parts (docs/data-sources.md). For images (docs/schema.md#images) it is the idx file, with the
	// labels next to it. Set it or `sql`. Default: none.
	Data string `yaml:"data"`
	// SQL asks a PostgreSQL database for the site's rows, in place of Data.
	SQL postgres.Config `yaml:"sql"`
	// Stream reads the rows from the disk or the database for each question, instead of keeping them in memory, for
	// tables of any size (docs/data-streams.md). The node writes the records of its teachers to the disk when a run
	// trains (docs/data-streams.md#records-on-the-disk). It refuses boosting and weights by regression; from `sql` it
	// answers only sums of all records (`marginals`, `embed`, the figure of quality). Default: false.
	Stream bool `yaml:"stream"`
	// SortedBy says that `data` is sorted. With `unit` it is sorted by the unit column, text by its bytes and numbers
	// by size, several files as one table. A node that streams then needs no sort on the disk. It checks the order at
	// each start. Default: none.
	SortedBy string `yaml:"sorted_by"`
	// Share is a part of the file, from and to, chosen by a hash of each record, so that one file can play several
	// sites. Real sites leave it out.
	Share [2]float64 `yaml:"share"`
	// Unit is the privacy unit, as at the aggregator: `record`, or the column that names the person. All records of a
	// person go to one teacher.
	Unit string `yaml:"unit"`
	// Overlap is the number of sites at which a unit of this site may be, itself included, 1 to 1000. 1 means only
	// here. A dataset that counts on fewer does not take the node, and a node with a policy does not answer a run that
	// does.
	Overlap int `yaml:"overlap"`
	// Teachers is the number of teachers, which are partitions of the records, at most the number of units. With more,
	// the noise of votes matters less, and each teacher learns from fewer records. It is fixed for the life of the
	// dataset.
	Teachers int `yaml:"teachers"`
}

// SortedByUnit says that rows are sorted by the unit column.
const SortedByUnit = "unit"

// Config says what rows a node has.
type Config struct {
	Identity
	Records
	// State is the folder with the partition key; sorts on the disk use files in it.
	State string
}

// KeyPath is the file of the partition key in a state folder.
func KeyPath(state string) string { return filepath.Join(state, "partition.key") }

// ManifestPath is the file of the manifest in a state folder.
func ManifestPath(state string) string { return filepath.Join(state, "manifest.json") }

// LoadManifest reads the manifest of earlier starts, nil if there is none.
func LoadManifest(path string) (*partition.Manifest, error) {
	stored, err := partition.LoadManifest(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return stored, err
}

// source names where the rows come from, for errors.
func (c Config) source() string {
	if c.SQL.Set() {
		return "sql"
	}
	return c.Data
}

// keyIfAny is the partition key, or a new one before the first start. With an existing key, a start reads the rows
// only once.
func (c Config) keyIfAny() (key partition.Key, err error) {
	switch _, err := os.Stat(KeyPath(c.State)); {
	case err == nil:
		return partition.LoadOrCreateKey(KeyPath(c.State))
	case !errors.Is(err, fs.ErrNotExist):
		return key, fmt.Errorf("read the partition key: %w; make the state folder readable", err)
	}
	return key, nil
}

// manifest is the manifest of rows that are not in memory.
func (c Config) manifest(s *partition.Schema, units int, key partition.Key,
	sum *partition.DataSum) *partition.Manifest {
	m := &partition.Manifest{Dataset: c.Dataset, Site: c.Site, Node: c.Node, SchemaSHA256: s.SHA256,
		Unit: c.Unit, Partitions: c.Teachers, Units: units}
	m.Seal(key, sum)
	return m
}

// scratch is the folder for sorts: before the first start nothing is created in place of the state folder.
func (c Config) scratch() string {
	if _, err := os.Stat(c.State); err != nil {
		return os.TempDir()
	}
	return c.State
}
