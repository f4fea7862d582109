package node

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
)

const imageSchema = `label: y
format: idx
image: {height: 2, width: 2, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 4}
  - {name: y, kind: categorical, categories: [cat, dog, cow]}
`

// imageConfig is a configuration of a node with idx files of so many images.
func imageConfig(t *testing.T, teachers, images int) Config {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	x := &idx.Images{Shape: partition.Image{Height: 2, Width: 2, Channels: 1}}
	for range images {
		for range 4 {
			x.Pixels = append(x.Pixels, byte(rng.IntN(256)))
		}
		x.Classes = append(x.Classes, rng.IntN(3))
	}
	a, b, err := idx.Encode(x, true)
	testkit.Must(t, err)
	c := smallConfig(t, teachers)
	dir := t.TempDir()
	c.Schema, c.Data = filepath.Join(dir, "schema.yaml"), filepath.Join(dir, "train-images-idx3-ubyte.gz")
	for path, raw := range map[string][]byte{
		c.Schema: []byte(imageSchema), c.Data: a, filepath.Join(dir, "train-labels-idx1-ubyte.gz"): b,
	} {
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	return c
}

// A node has images of its own as it has a table, and another share of the file
// is other data.
func TestANodeOfImages(t *testing.T) {
	c := imageConfig(t, 4, 200)
	c.Share = [2]float64{0, 0.5}
	site, err := ReadSite(c, kinds.All())
	testkit.Must(t, err)
	n, err := site.Node(c.Aggregator, zap.NewNop())
	testkit.Must(t, err)
	testkit.Must(t, n.manifest.store())
	rows := 0
	for _, of := range n.site.Examples {
		for _, x := range of.ByClass {
			rows += len(x) / 4
			for _, v := range x {
				if v < 0 || v > 1 {
					t.Fatalf("a pixel of %v", v)
				}
			}
		}
	}
	if n.site.Features != 4 || n.site.Classes != 3 || rows != site.table.Len() || rows < 70 || rows > 130 {
		t.Errorf("%d features, %d classes, %d records of 200", n.site.Features, n.site.Classes, rows)
	}
	if again, err := New(c, kinds.All(), zap.NewNop()); err != nil ||
		again.manifest.Fingerprint != n.manifest.Fingerprint {
		t.Errorf("a second start: %v", err)
	}
	c.Share = [2]float64{0.5, 1}
	if _, err := ReadSite(c, kinds.All()); err == nil || !strings.Contains(err.Error(), "data differs") {
		t.Errorf("the other half of the file: %v", err)
	}
}

func TestANodeWithoutItsLabels(t *testing.T) {
	c := imageConfig(t, 4, 20)
	labels := filepath.Join(filepath.Dir(c.Data), "train-labels-idx1-ubyte.gz")
	testkit.Must(t, os.Remove(labels))
	if _, err := ReadSite(c, kinds.All()); err == nil || !strings.Contains(err.Error(), labels) {
		t.Errorf("error %v does not name %s", err, labels)
	}
}
