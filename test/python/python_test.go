// Package python runs the tests of the Python package with a program built for them.
package python

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// interpreter finds an interpreter with the tests' dependencies.
func interpreter(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import numpy, pandas, pytest").Run() == nil {
			return name
		}
	}
	t.Skip("no python3 with numpy, pandas and pytest is here (Debian: python3-pandas, python3-pytest)")
	return ""
}

func TestThePackageForPython(t *testing.T) {
	name, bin := interpreter(t), t.TempDir()
	testkit.Must(t, testkit.Programs(bin, []string{"conclave"}))
	folder, err := filepath.Abs(filepath.Join("..", "..", "python"))
	testkit.Must(t, err)
	// Go reuses the cached result unless it has seen a file change.
	testkit.Must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) == ".pyc" {
			return err
		}
		_, err = os.ReadFile(path)
		return err
	}))
	c := exec.CommandContext(t.Context(), name, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error",
		filepath.Join(folder, "tests"))
	c.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1",
		"CONCLAVE_BINARY="+filepath.Join(bin, "conclave"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); strings.Contains(lines[len(lines)-1], "skipped") {
		t.Errorf("tests were skipped:\n%s", out)
	}
}
