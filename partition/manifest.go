package partition

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// manifestVersion is written to manifest files; other versions are refused.
const manifestVersion = 2

// Manifest is a node's record of its data and of everything that determines its partitions. The file is private
// because it has counts; only Fingerprint may be shown to others. All digests are HMAC-SHA256 under the node's key,
// in hex.
type Manifest struct {
	Version      int    `json:"version"`
	Dataset      string `json:"dataset"`
	Site         string `json:"site"`
	Node         string `json:"node"`
	SchemaSHA256 string `json:"schema_sha256"`
	Unit         string `json:"unit"`
	Partitions   int    `json:"partitions"`
	Units        int    `json:"units"` // privacy units
	Rows         int    `json:"rows"`
	KeyID        string `json:"key_id"`
	Data         string `json:"data"` // of a [DataSum]
	// Fingerprint covers all fields above except the counts, which follow from them. Key, data, unit and number
	// determine each unit's partition. Equal fingerprints mean equal manifests; they reveal nothing else.
	Fingerprint string `json:"fingerprint"`
}

// BuildManifest describes a table that [Assign] divides with the same key, partitions and unit. The order of the rows
// does not matter.
func BuildManifest(key Key, dataset, site, node string, t *Table, partitions int, unit string) (*Manifest, error) {
	if err := t.schema.CheckUnit(unit); err != nil {
		return nil, fmt.Errorf("build the partition manifest: %w", err)
	}
	if partitions < 1 {
		return nil, fmt.Errorf("build the partition manifest: %d partitions; there is one at least", partitions)
	}
	sum, units := NewDataSum(key), t.rows
	sum.Add(t)
	if unit != UnitRecord {
		distinct := map[string]struct{}{}
		for _, u := range t.units {
			distinct[u] = struct{}{}
		}
		units = len(distinct)
	}
	m := &Manifest{Dataset: dataset, Site: site, Node: node, SchemaSHA256: t.schema.SHA256, Unit: unit,
		Partitions: partitions, Units: units}
	m.Seal(key, sum)
	return m, nil
}

// Seal completes a manifest with names and number of units, from the sum of its rows under the key.
func (m *Manifest) Seal(key Key, sum *DataSum) {
	m.Version, m.Rows = manifestVersion, sum.rows
	h := newHasher(key)
	hexSum := func() string { d := h.sum(); return hex.EncodeToString(d[:]) }
	h.start("key id")
	m.KeyID = hexSum()
	h.start("data sum")
	for _, word := range sum.words {
		h.number(word)
	}
	h.number(uint64(sum.rows))
	m.Data = hexSum()
	h.start("fingerprint 2")
	for _, text := range []string{m.Dataset, m.Site, m.Node, m.SchemaSHA256, m.Unit, m.Data} {
		h.text(text)
	}
	h.number(uint64(m.Partitions))
	m.Fingerprint = hexSum()
}

// CheckAgainst compares a manifest with the one stored when the node first took part. A difference is
// ErrManifestChanged and names the part that differs.
func (m *Manifest) CheckAgainst(stored *Manifest) error {
	for _, part := range []struct {
		name string
		same bool
		fix  string
	}{
		{"data set", m.Dataset == stored.Dataset, "start the node for its data set, or give it its own folder"},
		{"site", m.Site == stored.Site, "start the node with its first site name"},
		{"node", m.Node == stored.Node, "start the node with its first name"},
		{"schema", m.SchemaSHA256 == stored.SchemaSHA256, "restore the schema file:" +
			" a changed schema is another data set"},
		{"privacy unit", m.Unit == stored.Unit, "use the unit of the first run"},
		{"partition count", m.Partitions == stored.Partitions, "use the number of teachers of the first run"},
		{"key", m.KeyID == stored.KeyID, "restore the partition key file"},
		{"data", m.Data == stored.Data, "restore the table: changed data is another data set"},
		{"fingerprint", m.Fingerprint == stored.Fingerprint, "restore the manifest file from a backup"},
	} {
		if !part.same {
			return fmt.Errorf("%w: its %s differs from the one stored for this node; %s",
				ErrManifestChanged, part.name, part.fix)
		}
	}
	return nil
}

// Save writes the manifest with mode 0600. The file is replaced atomically.
func (m *Manifest) Save(path string) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = writeAside(path, append(raw, '\n'), os.Rename)
	}
	if err != nil {
		return fmt.Errorf("save the partition manifest: %w; create its folder, and make it writable", err)
	}
	return nil
}

// LoadManifest reads a file written by Save. Errors are *InputError; a missing file is fs.ErrNotExist.
func LoadManifest(path string) (*Manifest, error) {
	fail := func(problem string, err error) (*Manifest, error) {
		return nil, &InputError{File: path, Problem: problem, Fix: "restore the file from a backup", Err: err}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return fail("cannot read the partition manifest", WithoutPath(err))
	}
	m := new(Manifest)
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(m)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one JSON value")
		}
	}
	if err != nil {
		return fail("not a partition manifest", err)
	}
	if m.Version != manifestVersion {
		return nil, &InputError{File: path, Problem: fmt.Sprintf("a manifest of version %d, expected %d",
			m.Version, manifestVersion), Fix: "use the release that wrote it"}
	}
	if m.Partitions < 1 || m.Units < 1 || m.Rows < m.Units || m.Fingerprint == "" {
		return fail("an incomplete partition manifest", nil)
	}
	return m, nil
}
