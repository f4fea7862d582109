package training

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The example is a run of every pipeline, and can be paid for.
func TestDemoOfEveryPipeline(t *testing.T) {
	for _, name := range pipelines.Names(nil) {
		dir := filepath.Join(t.TempDir(), "example")
		testkit.Must(t, os.CopyFS(dir, flchain.Files))
		path := filepath.Join(dir, "run.yaml")
		testkit.Must(t, setPipeline(path, name))
		s, err := runfile.Load(path)
		testkit.Must(t, err)
		if s.Pipeline != name {
			t.Errorf("%s: the run trains with %s", name, s.Pipeline)
		}
		schema, err := s.LoadSchema()
		testkit.Must(t, err)
		if _, err := run.NewPlan(s, schema); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
