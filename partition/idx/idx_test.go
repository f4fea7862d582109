package idx

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

func someImages(channels int) *Images {
	x := &Images{Shape: partition.Image{Height: 2, Width: 3, Channels: channels}, Classes: []int{1, 0, 1, 1}}
	for i := range 4 * x.Shape.Size() {
		x.Pixels = append(x.Pixels, byte(i*7))
	}
	return x
}

// idxFiles writes both files and returns their paths.
func idxFiles(t *testing.T, x *Images, zip bool) (images, labels string) {
	t.Helper()
	var a, b bytes.Buffer
	testkit.Must(t, Write(&a, &b, x))
	images, labels = filepath.Join(t.TempDir(), "images"), filepath.Join(t.TempDir(), "labels")
	for path, raw := range map[string][]byte{images: a.Bytes(), labels: b.Bytes()} {
		if zip {
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			_, _ = w.Write(raw)
			_ = w.Close()
			raw = z.Bytes()
		}
		testkit.Must(t, os.WriteFile(path, raw, 0o600))
	}
	return images, labels
}

func TestIDXRoundTrip(t *testing.T) {
	for _, channels := range []int{1, 3} {
		for _, zip := range []bool{false, true} {
			text := partitiontest.ImageSchema
			if channels == 3 {
				text = strings.NewReplacer("channels: 1", "channels: 3", "repeat: 6", "repeat: 18").Replace(text)
			}
			want := someImages(channels)
			images, labels := idxFiles(t, want, zip)
			got, err := Read(partitiontest.Schema(t, text), images, labels)
			testkit.Must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d channels, gzip %v: %s", channels, zip, diff)
			}
		}
	}
}

func TestImagesSubset(t *testing.T) {
	x := someImages(1)
	s := x.Subset([]int{3, 1})
	if s.Len() != 2 || !bytes.Equal(s.Image(0), x.Image(3)) || !bytes.Equal(s.Image(1), x.Image(1)) ||
		s.Classes[1] != 0 {
		t.Errorf("subset %+v", s)
	}
}

func TestReadIDXRefuses(t *testing.T) {
	schema := partitiontest.Schema(t, partitiontest.ImageSchema)
	change := func(at int, to byte) func(raw []byte) []byte {
		return func(raw []byte) []byte { raw[at] = to; return raw }
	}
	for _, c := range []struct {
		name, says     string
		images, labels func(raw []byte) []byte
	}{
		{"cut images", "is truncated", func(raw []byte) []byte { return raw[:len(raw)-1] }, nil},
		{"cut head", "is truncated", func(raw []byte) []byte { return raw[:6] }, nil},
		{"empty", "is truncated", func([]byte) []byte { return nil }, nil},
		{"longer", "longer than its header says", func(raw []byte) []byte { return append(raw, 0) }, nil},
		{"many", "more than 4 GiB", change(4, 0xff), nil},
		{"another shape", "images of 2 x 4", change(15, 4), nil},
		{"no images", "not an idx file of images", change(3, 1), nil},
		{"no labels", "not an idx file of labels", nil, change(3, 3)},
		{"another class", "beyond the schema's 2 classes", nil, change(9, 2)},
		{"other labels", "3 labels for 4 images", nil, func(raw []byte) []byte { raw[7] = 3; return raw[:len(raw)-1] }},
	} {
		images, labels := idxFiles(t, someImages(1), false)
		for path, damage := range map[string]func([]byte) []byte{images: c.images, labels: c.labels} {
			if damage == nil {
				continue
			}
			raw := testkit.Read(t, path)
			testkit.Must(t, os.WriteFile(path, damage(raw), 0o600))
		}
		if _, err := Read(schema, images, labels); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.says)
		}
	}
	images, labels := idxFiles(t, someImages(1), false)
	if _, err := Read(schema, filepath.Join(images, "none"), labels); err == nil ||
		!strings.Contains(err.Error(), "check path") {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzDecodeIDX(f *testing.F) {
	var images, labels bytes.Buffer
	testkit.Must(f, Write(&images, &labels, someImages(1)))
	f.Add(images.Bytes())
	f.Add(labels.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if pixels, err := decodeImages(bytes.NewReader(raw), "f",
			partition.Image{Height: 2, Width: 3, Channels: 1}); err == nil && len(pixels) != len(raw)-16 {
			t.Errorf("%d pixels of %d bytes", len(pixels), len(raw))
		}
		if classes, err := decodeLabels(bytes.NewReader(raw), "f", 2); err == nil && len(classes) != len(raw)-8 {
			t.Errorf("%d labels of %d bytes", len(classes), len(raw))
		}
	})
}
