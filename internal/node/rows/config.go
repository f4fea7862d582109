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
	// Dataset names the dataset at the aggregator. Its budget spans runs.
	Dataset string `yaml:"dataset"`
	// Site names the institution; the certificate must be issued to it.
	Site string `yaml:"site"`
	// Node names this process among the nodes of its site. Default: "0".
	Node string `yaml:"node"`
}

// Records say what records a node has, and how they are divided among teachers.
type Records struct {
	// Schema is the path of the public schema.yaml.
	Schema string `yaml:"schema"`
	// Data is the path of the site's CSV file, plain or gzipped, or of its Parquet file; of a
	// folder of such files, or a pattern of their names, which are one table; or of its idx
	// file of images, with the file of their labels beside it.
	Data string `yaml:"data"`
	// SQL asks a PostgreSQL database for the site's rows, in place of Data. They are read once, when the node starts,
	// or not at all with sql.pushdown.
	SQL postgres.Config `yaml:"sql"`
	// Stream reads the rows of Data from the disk, or of SQL from the database, for each question, in place of holding
	// them in memory: a table of any size is answered from. Records of teachers are put on the disk. Fits and
	// selections are not answered then, and from SQL sums of all records alone. Data must be CSV or Parquet, and stay
	// as it is while the node runs. Default: false.
	Stream bool `yaml:"stream"`
	// SortedBy says that Data is sorted: "unit" by the unit column, text by its bytes and numbers by size. A node that
	// streams then finds the records of a unit without a sort on the disk, and checks the order at its start. With
	// several files their rows are sorted as one table. Default: none.
	SortedBy string `yaml:"sorted_by"`
	// Share takes a part [from, to) of the file, chosen by a hash of each
	// record, so that several sites can be played on one file. Default: all.
	Share [2]float64 `yaml:"share"`
	// Unit is the privacy unit: "record", or the column that names the person.
	// Default: "record". A person's records all go to one teacher.
	Unit string `yaml:"unit"`
	// Overlap is at how many sites a unit of this one may be, itself among them; a dataset or run that counts on
	// fewer is not answered. Default: 1, its units are at no other site.
	Overlap int `yaml:"overlap"`
	// Teachers is the number of teachers (= partitions) on this node. More
	// teachers drown the noise better, each learns from fewer records. Fixed
	// for the life of the dataset. Default: 100.
	Teachers int `yaml:"teachers"`
}

// SortedByUnit says that rows are sorted by the unit column.
const SortedByUnit = "unit"

// Config says what rows a node has.
type Config struct {
	Identity
	Records
	// State is the folder with the partition key, in which sorts on the disk have their files.
	State string
}

// KeyPath is the file of the partition key in a state folder.
func KeyPath(state string) string { return filepath.Join(state, "partition.key") }

// ManifestPath is the file of the manifest in a state folder.
func ManifestPath(state string) string { return filepath.Join(state, "manifest.json") }

// LoadManifest reads the manifest of earlier starts, nil when there is none.
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

// keyIfAny is the partition key, another one before the first start: where there is one, a start needs one reading.
func (c Config) keyIfAny() (key partition.Key, err error) {
	switch _, err := os.Stat(KeyPath(c.State)); {
	case err == nil:
		return partition.LoadOrCreateKey(KeyPath(c.State))
	case !errors.Is(err, fs.ErrNotExist):
		return key, fmt.Errorf("look for the partition key: %w; let this process read the state folder", err)
	}
	return key, nil
}

// manifest is that of rows that are not in memory.
func (c Config) manifest(s *partition.Schema, units int, key partition.Key,
	sum *partition.DataSum) *partition.Manifest {
	m := &partition.Manifest{Dataset: c.Dataset, Site: c.Site, Node: c.Node, SchemaSHA256: s.SHA256,
		Unit: c.Unit, Partitions: c.Teachers, Units: units}
	m.Seal(key, sum)
	return m
}

// scratch is the folder for sorts: before the first start nothing is made in the state folder's place.
func (c Config) scratch() string {
	if _, err := os.Stat(c.State); err != nil {
		return os.TempDir()
	}
	return c.State
}
