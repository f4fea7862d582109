package schema

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// A schema is only for its owner, even if others could read the old one.
func TestModeOfTheSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schema.yaml")
	testkit.Must(t, os.WriteFile(path, nil, 0o600))
	testkit.Must(t, os.Chmod(path, 0o644))
	testkit.Must(t, writePrivate(path, []byte("name: a\n")))
	info, err := os.Stat(path)
	testkit.Must(t, err)
	testkit.Same(t, "mode", fs.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	testkit.Same(t, "text", "name: a\n", string(text))
	if err := writePrivate(filepath.Join(t.TempDir(), "no", "schema.yaml"), nil); err == nil {
		t.Error("a file in no folder is written")
	}
}
