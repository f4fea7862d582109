package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// Checking a site writes nothing, whether it succeeds or not.
func TestCheckingASiteLeavesNoTrace(t *testing.T) {
	c := smallConfig(t, 4)
	if _, err := NewSite(c, questiontest.SmallTable(t, 80, 1), kinds.All()); err != nil {
		t.Fatal(err)
	}
	_, err := NewSite(c, questiontest.SmallTable(t, 3, 1), kinds.All())
	if !errors.Is(err, partition.ErrTooManyPartitions) {
		t.Errorf("4 teachers on 3 records: %v", err)
	}
	if _, err := os.Stat(c.State); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder was made (%v)", err)
	}
}

func TestASiteNeedsNoAddressButItsNodeDoes(t *testing.T) {
	c := smallConfig(t, 4)
	c.Aggregator = ""
	site, err := NewSite(c, questiontest.SmallTable(t, 80, 1), kinds.All())
	testkit.Must(t, err)
	for _, address := range []string{"", "host", "host:", ":7443"} {
		if _, err := site.Node(address, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("address %q: error %v", address, err)
		}
	}
	if exists(c, "partition.key") {
		t.Error("a node that was not made left a key")
	}
	n, err := site.Node("aggregator.example:7443", zap.NewNop())
	testkit.Must(t, err)
	if n.cfg.Aggregator != "aggregator.example:7443" || site.Name() != "north" {
		t.Errorf("the node of %s dials %q", site.Name(), n.cfg.Aggregator)
	}
}

func TestTheManifestIsKeptAndCompared(t *testing.T) {
	table := questiontest.SmallTable(t, 80, 1)
	c := smallConfig(t, 4)
	first := start(t, c, table)
	stored, err := partition.LoadManifest(filepath.Join(c.State, "manifest.json"))
	testkit.Must(t, err)
	if stored.Fingerprint != first.manifest.Fingerprint || stored.Partitions != 4 {
		t.Errorf("the manifest of %d partitions has fingerprint %s, the node %s",
			stored.Partitions, stored.Fingerprint, first.manifest.Fingerprint)
	}
	if again := start(t, c, table); again.manifest.Fingerprint != first.manifest.Fingerprint {
		t.Error("a second start has another fingerprint")
	}
	other := smallConfig(t, 4)
	if start(t, other, table).manifest.Fingerprint == first.manifest.Fingerprint {
		t.Error("another key has the same fingerprint: it tells about the records")
	}
	for name, change := range map[string]func(*Config) *partition.Table{
		"data":            func(*Config) *partition.Table { return questiontest.SmallTable(t, 81, 1) },
		"partition count": func(c *Config) *partition.Table { c.Teachers = 5; return table },
		"data set":        func(c *Config) *partition.Table { c.Dataset = "e"; return table },
		"site":            func(c *Config) *partition.Table { c.Site = "south"; return table },
		"node":            func(c *Config) *partition.Table { c.Node = "1"; return table },
	} {
		changed := c
		table := change(&changed)
		_, err := NewSite(changed, table, kinds.All())
		if !errors.Is(err, partition.ErrManifestChanged) || !strings.Contains(err.Error(), "its "+name+" differs") ||
			!strings.Contains(err.Error(), "manifest.json") {
			t.Errorf("another %s: error %v", name, err)
		}
	}
	start(t, c, table) // none of this has changed the state
}

// A lost key must not be replaced by a new one, which would give every unit another teacher.
func TestALostKeyIsNotReplaced(t *testing.T) {
	table, c := questiontest.SmallTable(t, 80, 1), smallConfig(t, 4)
	start(t, c, table)
	testkit.Must(t, os.Remove(filepath.Join(c.State, "partition.key")))
	if _, err := NewSite(c, table, kinds.All()); err == nil ||
		!strings.Contains(err.Error(), "partition.key is missing") || !strings.Contains(err.Error(), "restore") {
		t.Errorf("error %v, want one that says to restore the key", err)
	}
	if exists(c, "partition.key") {
		t.Error("a new key was made")
	}
}

// A change between check and start is detected at the start.
func TestASiteIsCheckedAgainAtItsStart(t *testing.T) {
	table, c := questiontest.SmallTable(t, 80, 1), smallConfig(t, 4)
	late, err := NewSite(c, questiontest.SmallTable(t, 70, 1), kinds.All())
	testkit.Must(t, err)
	start(t, c, table)
	if _, err := late.Node(c.Aggregator, zap.NewNop()); !errors.Is(err, partition.ErrManifestChanged) {
		t.Errorf("error %v, want that the manifest changed", err)
	}
	// The state folder is lost: the new key comes with a manifest made from it.
	early, err := NewSite(c, table, kinds.All())
	testkit.Must(t, err)
	testkit.Must(t, os.RemoveAll(c.State))
	n, err := early.Node(c.Aggregator, zap.NewNop())
	testkit.Must(t, err)
	if again := start(t, c, table); again.manifest.Fingerprint != n.manifest.Fingerprint {
		t.Error("the manifest is not that of the key")
	}
}

func TestReadSiteReadsTheFilesOfTheConfiguration(t *testing.T) {
	t.Run("in memory", func(t *testing.T) { readFiles(t, false) })
	t.Run("streamed", func(t *testing.T) { readFiles(t, true) })
}

func readFiles(t *testing.T, stream bool) {
	dir, c := t.TempDir(), smallConfig(t, 2)
	c.Stream = stream
	c.Schema, c.Data = filepath.Join(dir, "schema.yaml"), filepath.Join(dir, "table.csv")
	rows := "x,b,c,y\n0.5,1,p,no\n0.25,0,q,yes\n0.75,0,r,yes\n"
	testkit.Must(t, os.WriteFile(c.Schema, []byte(questiontest.SmallSchema), 0o600))
	testkit.Must(t, os.WriteFile(c.Data, []byte(rows), 0o600))
	n, err := New(c, kinds.All(), zap.NewNop())
	testkit.Must(t, err)
	if got := ask(t, n, countRound("r", 0, 2, 1)).GetSum().GetValues(); got[0] != 1 || got[1] != 2 {
		t.Errorf("class counts %v, want 1 and 2", got)
	}
	part := c
	part.State, part.Share = filepath.Join(dir, "part"), [2]float64{0, 0.5}
	testkit.Must(t, os.WriteFile(c.Data, []byte(rows+strings.Repeat("0.5,0,p,no\n0.125,1,q,yes\n", 20)), 0o600))
	first := testkit.Value(ReadSite(part, kinds.All(), nil)).rows.Len()
	part.Share = [2]float64{0.5, 1}
	if second := testkit.Value(ReadSite(part, kinds.All(), nil)).rows.Len(); first+second != 43 || first*second == 0 {
		t.Errorf("halves of 43 records have %d and %d", first, second)
	}
	testkit.Must(t, os.WriteFile(c.Data, []byte(rows+"7,0,r,yes\n"), 0o600))
	var input *partition.InputError
	if _, err := ReadSite(c, kinds.All(), nil); !errors.As(err, &input) || input.Row != 4 || input.Column != "x" {
		t.Errorf("a number out of range: error %v, want one that names row 4, column x", err)
	}
	c.Schema = filepath.Join(dir, "none.yaml")
	if _, err := ReadSite(c, kinds.All(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no schema: error %v", err)
	}
}
