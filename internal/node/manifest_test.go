package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// refusal runs a node that the aggregator must refuse, and returns the reason.
func refusal(t *testing.T, n *Node) error {
	t.Helper()
	_, ended := begin(t, n)
	err := testkit.Receive(t, ended)
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("Run ended with %v, want a refusal", err)
	}
	return err
}

// kept waits until a node has stored its manifest.
func kept(t *testing.T, c Config) {
	t.Helper()
	testkit.Eventually(t, "a manifest that is kept", func() bool { return exists(c, "manifest.json") })
}

// A mistake at the first start is refused by the aggregator and can be fixed in the same folder. After a welcome the
// node is bound to its data.
func TestAMistakeAtTheFirstStartCanBeMended(t *testing.T) {
	table := questiontest.SmallTable(t, 80, 1)
	address, folder := startAggregator(t, table.Schema().SHA256)
	good := smallConfig(t, 4)
	good.Aggregator, good.TLS = address, certs.IssuedFiles(folder, certs.RoleNode, "north")
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"site":        {func(c *Config) { c.Site = "nroth" }, `"nroth"`},
		"dataset":     {func(c *Config) { c.Dataset = "e" }, `dataset "e"`},
		"certificate": {func(c *Config) { c.TLS = certs.IssuedFiles(folder, certs.RoleStudent, "student") }, "role"},
	} {
		wrong := good
		c.change(&wrong)
		if err := refusal(t, unknown(t, wrong, table)); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: refused with %v", name, err)
		}
		if exists(good, "manifest.json") {
			t.Fatalf("%s: a manifest was kept", name)
		}
	}
	n := unknown(t, good, table)
	stop, _ := run(t, n)
	kept(t, good)
	testkit.Must(t, stop())
	moved := good
	moved.Site = "south"
	if _, err := NewSite(moved, table, kinds.All()); !errors.Is(err, partition.ErrManifestChanged) ||
		!strings.Contains(err.Error(), "its site differs") {
		t.Errorf("another site after the welcome: %v", err)
	}
	start(t, good, table)

	// A process that died between the welcome and the write has no manifest. It has the key, so the same records have
	// the same fingerprint, and the aggregator accepts no other.
	testkit.Must(t, os.Remove(filepath.Join(good.State, "manifest.json")))
	err := refusal(t, unknown(t, good, questiontest.SmallTable(t, 81, 1)))
	if !strings.Contains(err.Error(), "manifest") || exists(good, "manifest.json") {
		t.Errorf("other records: refused with %v, manifest kept: %v", err, exists(good, "manifest.json"))
	}
	stop, _ = run(t, unknown(t, good, table))
	kept(t, good)
	testkit.Must(t, stop())
}

// A manifest that cannot be stored ends the node before it answers.
func TestAManifestThatCannotBeKeptEndsTheNode(t *testing.T) {
	f := newFakeAggregator(t)
	table := questiontest.SmallTable(t, 40, 1)
	c := f.config(2)
	late := unknown(t, c, questiontest.SmallTable(t, 41, 1))
	start(t, c, table) // another process with other records was faster
	_, ended := begin(t, late)
	f.next()
	if err := testkit.Receive(t, ended); !errors.Is(err, partition.ErrManifestChanged) ||
		!strings.Contains(err.Error(), "manifest.json") {
		t.Errorf("Run ended with %v, want that the manifest changed", err)
	}
}

// A refused node writes nothing that depends on its configuration.
func TestARefusedNodeKeepsItsKeyOnly(t *testing.T) {
	f := newFakeAggregator(t)
	f.setRefusal(status.Error(codes.FailedPrecondition, "not like this"))
	c := f.config(2)
	refusal(t, unknown(t, c, questiontest.SmallTable(t, 40, 1)))
	entries, err := os.ReadDir(c.State)
	testkit.Must(t, err)
	if len(entries) != 2 || entries[0].Name() != "partition.key" || entries[1].Name() != "process.lock" {
		t.Errorf("the state folder holds %v", entries)
	}
	f.setRefusal(nil)
	c.Node, c.Teachers = "other", 3
	n, err := mustSite(t, c).Node(c.Aggregator, zap.NewNop())
	testkit.Must(t, err)
	run(t, n)
	f.next().votes(voteRound("r", 1))
	if !exists(c, "manifest.json") {
		t.Error("an answer left before the manifest was kept")
	}
}

func mustSite(t *testing.T, c Config) *Site {
	t.Helper()
	s, err := NewSite(c, questiontest.SmallTable(t, 60, 1), kinds.All())
	testkit.Must(t, err)
	return s
}
