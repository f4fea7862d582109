package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/runfile"
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
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// load reads a run.yaml beside the tiny schema.
func load(t *testing.T, text string) (*runfile.Spec, error) {
	t.Helper()
	dir := write(t, map[string]string{"schema.yaml": schemaText, "run.yaml": text})
	return runfile.Load(filepath.Join(dir, "run.yaml"))
}

// replaced is text with old replaced, which must be there.
func replaced(t *testing.T, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("no %q to replace", old)
	}
	return strings.Replace(text, old, new, 1)
}

// voteSpec is a spec of teachers' votes that begins with the class shares.
func voteSpec() *runfile.Spec {
	s := runfile.DefaultSpec()
	s.Pipeline, runfile.Section[embed.WarmStart](s).Embed = "pategan", 0
	return s
}

// checkRefusal has Load or Prepare refuse the run of files with an error that says want, or take
// it where want is empty. Neither may write anything.
func checkRefusal(t *testing.T, files map[string]string, want string) {
	t.Helper()
	dir := write(t, files)
	s, err := runfile.Load(filepath.Join(dir, "run.yaml"))
	if err == nil {
		_, err = Prepare(s)
	}
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(files) {
		t.Errorf("%d files after it (%v)", len(entries), err)
	}
}
