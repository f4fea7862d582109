package results

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/evaluate"
	"github.com/conclave-dp/conclave/internal/report"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/idx"
	"github.com/conclave-dp/conclave/partition/idx/idxtest"
	"github.com/conclave-dp/conclave/partition/partitiontest"
)

// Existing files under the names that a run of images writes stay, and do not matter to a run of a table.
// Colour images have their own name.
func TestOutputsOfImages(t *testing.T) {
	grey, colour := &partition.Image{Height: 1, Width: 1, Channels: 1},
		&partition.Image{Height: 1, Width: 1, Channels: 3}
	if name := filepath.Base(Files("x", colour, "csv")["images"]); name != "synthetic-images-idx4-ubyte.gz" {
		t.Errorf("colour is in %s", name)
	}
	out := write(t, map[string]string{"samples.png": "mine"})
	if err := MakeOutput(out, grey, "csv"); err == nil ||
		!strings.Contains(err.Error(), "samples.png exists and does not belong to a run") {
		t.Errorf("error %v", err)
	}
	if err := MakeOutput(out, nil, "csv"); err != nil {
		t.Error(err)
	}
}

// Rows in another form than the run's also belong to somebody else.
func TestOutputsInAnotherForm(t *testing.T) {
	out := write(t, map[string]string{"synthetic.csv": "mine"})
	if name := filepath.Base(Files(out, nil, "parquet")["synthetic"]); name != "synthetic.parquet" {
		t.Errorf("rows are in %s", name)
	}
	if err := MakeOutput(out, nil, "parquet"); err == nil ||
		!strings.Contains(err.Error(), "synthetic.csv exists and does not belong to a run") {
		t.Errorf("error %v", err)
	}
}

// Large images are shown in smaller numbers, and not at all if one of each class is too large for a page.
func TestLargeImages(t *testing.T) {
	if testing.Short() {
		t.Skip("one thread of arithmetic, and slow with a race detector")
	}
	random := rand.NewChaCha8([32]byte{2})
	noise := func(each, classes int) (*idx.Images, *partition.Schema) { // of the schema only its classes matter
		x := &idx.Images{Shape: partition.Image{Height: 240, Width: 180, Channels: 3}}
		for i := range each * classes {
			x.Classes = append(x.Classes, i%classes)
		}
		x.Pixels = make([]byte, x.Shape.Size()*len(x.Classes))
		_, err := random.Read(x.Pixels)
		testkit.Must(t, err)
		text := strings.Replace(partitiontest.Bars, "[left, right]", "[a"+numbered(classes)+"]", 1)
		return x, partitiontest.Schema(t, text)
	}
	x, schema := noise(10, 4)
	sheet, err := samplesOf(x, schema)
	if err != nil || len(sheet) > picture.MaxSheetBytes {
		t.Errorf("%d bytes, %v", len(sheet), err)
	}
	x, schema = noise(1, 33)
	var page report.Page
	testkit.Must(t, addSheet(&page, "x", x, schema, false))
	if len(page.Images) != 0 || len(page.Notes) != 1 {
		t.Errorf("%d sheets, notes %q", len(page.Images), page.Notes)
	}
}

// numbered lists n-1 further categories.
func numbered(n int) string {
	var b strings.Builder
	for i := 1; i < n; i++ {
		b.WriteString(", c" + strings.Repeat("x", i))
	}
	return b.String()
}

// An evaluation of images that ends early leaves the page without one.
func TestFillPageOfImages(t *testing.T) {
	schema := partitiontest.Schema(t, partitiontest.Bars)
	table, err := idxtest.Bars(40).Table(schema)
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var page report.Page
	if err := fillPage(ctx, &page, table, Real{Images: realImages{Test: idxtest.Bars(20)}}); err == nil ||
		page.Evaluation != nil || len(page.Images) != 2 || !page.NotPrivate() {
		t.Errorf("cancelled: %v, %+v", err, page.Evaluation)
	}
	if utilityOf(nil) != nil {
		t.Error("utility of nothing")
	}
	r := imageUtility(&evaluate.Evaluation{Images: &evaluate.ImageQuality{AccuracySynthetic: 0}})
	if raw, err := json.Marshal(r); err != nil || string(raw) != `{"classifier":"cnn","synthetic_accuracy":0}` {
		t.Errorf("%s (%v)", raw, err)
	}
}

// Real images that cannot be compared are refused before anything is started.
func TestRealImagesThatCannotBe(t *testing.T) {
	images, labels, err := idx.Encode(idxtest.Bars(3), false)
	testkit.Must(t, err)
	dir := write(t, map[string]string{"few-images": string(images), "few-labels": string(labels)})
	few := filepath.Join(dir, "few-images")
	for _, c := range []struct {
		e    Evaluate
		says string
	}{
		{Evaluate{Test: few}, "fewer than 4 images"},
		{Evaluate{Test: few, Train: few}, ""},
		{Evaluate{Test: filepath.Join(dir, "none-images")}, "images for the report: "},
		{Evaluate{Test: few, Train: few, CoinFlips: filepath.Join(dir, "schema.yaml")}, `does not contain "images"`},
	} {
		if _, err := LoadReal(c.e, partitiontest.Schema(t, partitiontest.Bars)); (err == nil) != (c.says == "") ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: error %v, want %q", c.e, err, c.says)
		}
	}
}

// write puts files in a folder of their own and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}
