package runfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

const schemaText = `name: tiny
label: label
columns:
  - {name: age, kind: integer, lower: 0, upper: 120}
  - {name: label, kind: binary}
  - {name: patient, kind: categorical, categories: [a, b], role: unit}
`

const good = `name: r1
schema: schema.yaml
privacy: {epsilon: 1, delta: 1e-5}
teachers: 1000
`

// write puts files in a folder of their own and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// load reads a run.yaml beside the tiny schema.
func load(t *testing.T, text string) (*Spec, error) {
	t.Helper()
	dir := write(t, map[string]string{"schema.yaml": schemaText, "run.yaml": text})
	return Load(filepath.Join(dir, "run.yaml"))
}

// replaced is text with old replaced, which must be there.
func replaced(t *testing.T, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("no %q to replace", old)
	}
	return strings.Replace(text, old, new, 1)
}
