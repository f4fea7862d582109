package coordinator

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func testNode() Node {
	return Node{Dataset: "flchain", Site: "north", Name: "n1", Manifest: "f1", SchemaSHA256: "5c0ffee", Teachers: 100}
}

func TestAdmitNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	south := testNode()
	south.Site, south.Manifest = "south", "f2"
	for range 2 { // the second time, they return
		for _, n := range []Node{south, testNode()} {
			testkit.Must(t, c.store.AdmitNode(ctx, c.lead, n))
		}
	}
	for field, change := range map[string]func(*Node){
		"partition manifest": func(n *Node) { n.Manifest = "f3" },
		"schema":             func(n *Node) { n.SchemaSHA256 = "other" },
		"number of teachers": func(n *Node) { n.Teachers = 99 },
	} {
		n := testNode()
		change(&n)
		err := c.store.AdmitNode(ctx, c.lead, n)
		want := &ManifestMismatchError{Dataset: "flchain", Site: "north", Node: "n1", Field: field}
		var got *ManifestMismatchError
		if !errors.Is(err, ErrForeignManifest) || !errors.As(err, &got) || *got != *want {
			t.Errorf("another %s: %v", field, err)
			continue
		}
		for _, name := range []string{`"north"`, `"n1"`, `"flchain"`, field} {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not name %s", err, name)
			}
		}
	}
	for name, change := range map[string]func(*Node){
		"no manifest":     func(n *Node) { n.Name, n.Manifest = "n2", "" },
		"no schema":       func(n *Node) { n.Name, n.SchemaSHA256 = "n2", "" },
		"no teachers":     func(n *Node) { n.Name, n.Teachers = "n2", 0 },
		"no site":         func(n *Node) { n.Site = "" },
		"a path as name":  func(n *Node) { n.Name = "n2/../n1" },
		"unknown dataset": func(n *Node) { n.Dataset = "nowhere" },
	} {
		n := testNode()
		change(&n)
		if err := c.store.AdmitNode(ctx, c.lead, n); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	got, err := c.store.Nodes(ctx, "flchain")
	testkit.Must(t, err)
	testkit.Same(t, "nodes", []Node{testNode(), south}, got)
}
