package pipelines_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Each kind of question runs the suite of kinds once.
func TestEachKindRunsTheSuite(t *testing.T) {
	runs := 0
	testkit.Must(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "suite_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		runs += bytes.Count(text, []byte("\tquestiontest.Run(")) + bytes.Count(text, []byte("{ questiontest.Run("))
		return err
	}))
	if n := len(kinds.All()); runs != n {
		t.Errorf("%d kinds of questions, and %d of them run questiontest.Run", n, runs)
	}
}
