package tabular

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// imageFolder puts images and their labels into a folder, under the names of
// MNIST, and gives the path of the images.
func imageFolder(t *testing.T, x *idx.Images, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	labels, err := idx.LabelsPath(path)
	testkit.Must(t, err)
	a, b, err := idx.Encode(x, strings.HasSuffix(name, ".gz"))
	testkit.Must(t, err)
	for path, raw := range map[string][]byte{path: a, labels: b} {
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	return path
}

// manyImages are of few pixel values, so that some of them are equal.
func manyImages(n int) *idx.Images {
	rng := rand.New(rand.NewPCG(1, 1))
	x := &idx.Images{Shape: partition.Image{Height: 2, Width: 3, Channels: 1}}
	for range n {
		for range 6 {
			x.Pixels = append(x.Pixels, byte(255*rng.IntN(2)))
		}
		x.Classes = append(x.Classes, rng.IntN(2))
	}
	return x
}

func TestLabelsPath(t *testing.T) {
	for images, want := range map[string]string{
		"train-images-idx3-ubyte.gz":       "train-labels-idx1-ubyte.gz",
		"/images/idx3/t10k-images.idx3.gz": "/images/idx3/t10k-labels.idx1.gz",
		"a/colour-images-idx4":             "a/colour-labels-idx1",
		"images":                           "labels",
		"images-of-images-idx3-idx3":       "images-of-labels-idx3-idx1",
	} {
		if got, err := idx.LabelsPath(images); err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", images, got, err, want)
		}
	}
	for _, path := range []string{"", "train-idx3-ubyte", "images/train", "Images"} {
		var input *partition.InputError
		if _, err := idx.LabelsPath(path); !errors.As(err, &input) || input.File != path ||
			!strings.Contains(err.Error(), `does not contain "images"`) {
			t.Errorf("%q: error %v", path, err)
		}
	}
}

// A table of images, the images of that table, and a CSV file of it are one.
func TestImagesAndTablesAreTheSame(t *testing.T) {
	for _, labelFirst := range []bool{false, true} {
		text := partitiontest.ImageSchema
		if labelFirst {
			lines := strings.SplitAfter(partitiontest.ImageSchema, "\n")
			text = strings.Join(append(lines[:4:4], lines[5], lines[4]), "")
		}
		s, x := partitiontest.Schema(t, text), someImages(1)
		table, err := Read(s, imageFolder(t, x, "train-images-idx3-ubyte.gz"), Options{})
		testkit.Must(t, err)
		if table.Len() != 4 || table.Label(0) != 1 || table.Label(1) != 0 {
			t.Errorf("label first %v: a table of %d rows", labelFirst, table.Len())
		}
		for row := range table.Len() { // what is read keeps the rules of what is appended
			if err := partition.NewTable(s).Append(table.Cells(row), ""); err != nil {
				t.Error(err)
			}
		}
		back, err := idx.FromTable(table)
		testkit.Must(t, err)
		if diff := cmp.Diff(x, back); diff != "" {
			t.Errorf("label first %v: %s", labelFirst, diff)
		}
		var file bytes.Buffer
		testkit.Must(t, WriteCSV(&file, table))
		path := filepath.Join(t.TempDir(), "images.CSV")
		testkit.Must(t, os.WriteFile(path, file.Bytes(), 0o600))
		again, err := Read(s, path, Options{})
		testkit.Must(t, err)
		partitiontest.SameTables(t, table, again)
		if got, err := ReadImages(s, path, Options{}); err != nil || cmp.Diff(x, got) != "" {
			t.Errorf("images of a CSV file: %+v (%v)", got, err)
		}
	}
}

// Shares of images are those of the same rows in a table, equal rows included,
// and so are their partitions.
func TestSharesOfImagesAreThoseOfTheTable(t *testing.T) {
	s, x := partitiontest.Schema(t, partitiontest.ImageSchema), manyImages(500)
	path := imageFolder(t, x, "images")
	whole, err := x.Table(s)
	testkit.Must(t, err)
	total := 0
	for _, share := range [][2]float64{{0, 0.3}, {0.3, 0.5}, {0.5, 1}} {
		o := Options{Site: "any", From: share[0], To: share[1]}
		want, err := selectRows(whole, "t", o)
		testkit.Must(t, err)
		got, err := Read(s, path, o)
		testkit.Must(t, err)
		partitiontest.SameTables(t, want, got)
		if _, err := partition.BuildManifest(partition.Key{1}, "d", "s", "0",
			got, 3, partition.UnitRecord); err != nil {
			t.Error(err)
		}
		total += got.Len()
	}
	if total != x.Len() {
		t.Errorf("the shares have %d images of %d", total, x.Len())
	}
	if all, err := Read(s, path, Options{To: 1}); err != nil || all.Len() != 500 {
		t.Errorf("all: %v", err)
	}
	if _, err := Read(s, path, Options{From: 0.5, To: 0.50001}); err == nil ||
		!strings.Contains(err.Error(), "no image belongs") {
		t.Errorf("an empty share: %v", err)
	}
	if _, err := Read(s, path, Options{From: 0.7, To: 0.5}); err == nil || !strings.Contains(err.Error(), "share") {
		t.Errorf("a wrong share: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	s := partitiontest.Schema(t, partitiontest.ImageSchema)
	good := imageFolder(t, someImages(1), "train-images-idx3-ubyte")
	alone := filepath.Join(t.TempDir(), "t10k-images-idx3-ubyte.gz")
	raw := testkit.Read(t, good)
	nameless := filepath.Join(t.TempDir(), "train-idx3-ubyte")
	for _, path := range []string{alone, nameless} {
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	short := filepath.Join(t.TempDir(), "rows.csv")
	testkit.Must(t, os.WriteFile(short, []byte("p_0,y\n1,cat\n"), 0o600))
	for path, want := range map[string]string{
		alone:                                   "t10k-labels-idx1-ubyte.gz: cannot read the labels",
		nameless:                                `does not contain "images"`,
		filepath.Join(t.TempDir(), "no-images"): "no-images: cannot read the images",
		short:                                   `5 columns are missing from the header: "p_1", "p_2"`,
		imageFolder(t, &idx.Images{Shape: partition.Image{Height: 2, Width: 3, Channels: 1}},
			"images"): "no image in it",
	} {
		var input *partition.InputError
		if _, err := Read(s, path, Options{}); !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
		if _, err := ReadImages(s, path, Options{}); !errors.As(err, &input) {
			t.Errorf("images of %s: error %v", path, err)
		}
	}
	table := partitiontest.Schema(t, "columns:\n  - {name: a, kind: binary}\n")
	if _, err := ReadImages(table, good, Options{}); err == nil || !strings.Contains(err.Error(), "not idx") {
		t.Errorf("images with a schema of a table: %v", err)
	}
	if _, err := Read(table, good, Options{}); err == nil {
		t.Error("idx read as CSV")
	}
}

func TestConversionsRefuse(t *testing.T) {
	s, table := partitiontest.Schema(t, partitiontest.ImageSchema), partitiontest.Schema(t,
		"columns:\n  - {name: a, kind: binary}\n")
	if _, err := idx.FromTable(partition.NewTable(table)); err == nil || !strings.Contains(err.Error(), "format idx") {
		t.Errorf("images of a table: %v", err)
	}
	for name, c := range map[string]struct {
		s    *partition.Schema
		x    *idx.Images
		says string
	}{
		"table":  {table, someImages(1), "format idx"},
		"colour": {s, someImages(3), "schema's shape"},
		"missing": {s, &idx.Images{Shape: partition.Image{Height: 2, Width: 3, Channels: 1}, Classes: []int{0}},
			"schema's shape"},
		"class": {s, &idx.Images{Shape: partition.Image{Height: 2, Width: 3, Channels: 1},
			Pixels: make([]byte, 6), Classes: []int{2}}, "no such class"},
		"class before": {s, &idx.Images{Shape: partition.Image{Height: 2, Width: 3, Channels: 1},
			Pixels: make([]byte, 6), Classes: []int{-1}}, "no such class"},
	} {
		if _, err := c.x.Table(c.s); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", name, err, c.says)
		}
	}
	for _, zip := range []bool{false, true} {
		if _, _, err := idx.Encode(&idx.Images{Shape: partition.Image{Height: 1, Width: 1, Channels: 1},
			Pixels: []byte{1}, Classes: []int{256}}, zip); err == nil {
			t.Error("class 256 was written")
		}
	}
}

func TestReadsMNISTAsATable(t *testing.T) {
	s, err := partition.LoadSchema(partitiontest.Shared(t, "mnist", "schema.yaml"))
	testkit.Must(t, err)
	path := partitiontest.Shared(t, "mnist", s.Files["test"].Images)
	table, err := Read(s, path, Options{})
	testkit.Must(t, err)
	half, err := Read(s, path, Options{To: 0.5})
	testkit.Must(t, err)
	if table.Len() != 10000 || table.Label(0) != 7 || half.Len() < 4800 || half.Len() > 5200 {
		t.Errorf("%d images, the first of class %d, %d in one half", table.Len(), table.Label(0), half.Len())
	}
}

// Bytes from outside give images that make a table, or an error.
func FuzzImagesTable(f *testing.F) {
	var images, labels bytes.Buffer
	testkit.Must(f, idx.Write(&images, &labels, someImages(1)))
	f.Add(images.Bytes(), labels.Bytes())
	s := partitiontest.Schema(f, partitiontest.ImageSchema)
	f.Fuzz(func(t *testing.T, images, labels []byte) {
		dir := t.TempDir()
		for name, raw := range map[string][]byte{"images": images, "labels": labels} {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
		}
		table, err := Read(s, filepath.Join(dir, "images"), Options{})
		if err != nil {
			return
		}
		x, err := idx.FromTable(table)
		if err != nil || x.Len() != table.Len() {
			t.Fatalf("%d rows, %v", table.Len(), err)
		}
		a, b, err := idx.Encode(x, false)
		if err != nil || !bytes.HasSuffix(a, x.Pixels) || len(b) != 8+x.Len() {
			t.Errorf("written again: %v", err)
		}
	})
}

// An idx file under the schema of a table is called what it is.
func TestAnIDXFileIsNoTable(t *testing.T) {
	s, err := partition.ParseSchema([]byte("columns:\n  - {name: x, kind: continuous, lower: 0, upper: 1}\n"))
	testkit.Must(t, err)
	path := filepath.Join(t.TempDir(), "images.idx")
	testkit.Must(t, os.WriteFile(path, []byte{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 7}, 0o600))
	if _, err := Read(s, path, Options{}); err == nil || !strings.Contains(err.Error(), "an idx file of images") {
		t.Errorf("got %v", err)
	}
}

func someImages(channels int) *idx.Images {
	x := &idx.Images{Shape: partition.Image{Height: 2, Width: 3, Channels: channels}, Classes: []int{1, 0, 1, 1}}
	for i := range 4 * x.Shape.Size() {
		x.Pixels = append(x.Pixels, byte(i*7))
	}
	return x
}
