package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

const imageRun = `name: digits
schema: schema.yaml
data:
  - {site: north, file: t10k-images-idx3-ubyte.gz, share: 0.75}
  - {site: south, file: t10k-images-idx3-ubyte.gz, share: 0.25}
privacy: {epsilon: 1, delta: 1e-5}
teachers: 40
`

// imageFolder makes a folder with a run.yaml beside MNIST's test images.
func imageFolder(t *testing.T) (spec *runfile.Spec, dir string) {
	t.Helper()
	from := filepath.Join("..", "..", "..", "shared", "data", "mnist")
	dir = t.TempDir()
	for _, name := range []string{"schema.yaml", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Skipf("the data set is not here: %v", err)
		}
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	path := filepath.Join(dir, "run.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(imageRun), 0o600))
	spec, err := runfile.Load(path)
	testkit.Must(t, err)
	return spec, dir
}

// The sites of a local cluster divide a file of images as they divide a table.
func TestSitesShareAFileOfImages(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	spec, dir := imageFolder(t)
	schema, err := partition.LoadSchema(spec.Schema)
	testkit.Must(t, err)
	configs, err := nodeConfigs(spec, schema, filepath.Join(dir, "state"))
	testkit.Must(t, err)
	if configs[0].Teachers != 30 || configs[1].Teachers != 10 || configs[1].Share != [2]float64{0.75, 1} {
		t.Errorf("nodes %+v", configs)
	}
	if _, err := readSites(configs); err != nil {
		t.Error(err)
	}
	// Cut labels are found before there is anything else.
	labels := filepath.Join(dir, "t10k-labels-idx1-ubyte.gz")
	raw := testkit.Read(t, labels)
	testkit.Must(t, os.WriteFile(labels, raw[:len(raw)/2], 0o600))
	var input *partition.InputError
	if _, err := readSites(configs); !errors.As(err, &input) ||
		!strings.Contains(err.Error(), "site north: "+labels+": the file ends too early") {
		t.Errorf("cut labels: %v", err)
	}
}

// A pipeline that cannot use images says so and leaves no trace.
func TestAPipelineWithoutImages(t *testing.T) {
	t.Parallel()
	spec, dir := imageFolder(t)
	spec.Pipeline = "pategan"
	out := filepath.Join(dir, "out")
	if _, err := Run(t.Context(), spec, Options{Out: out}); err == nil ||
		!strings.Contains(err.Error(), "images are not available with pategan; use embed, dpgan or gpate") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the output folder was made (%v)", err)
	}
}
