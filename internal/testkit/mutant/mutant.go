// Package mutant makes mistakes in copies of source files, to test whether other tests find them.
package mutant

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// Mistake is a mistake in a file: it replaces Right, which occurs once, with Wrong.
type Mistake struct{ File, Right, Wrong string }

// Check fails the test unless the file contains Right exactly once.
func (m Mistake) Check(t *testing.T) {
	t.Helper()
	if n := strings.Count(string(testkit.Read(t, m.File)), m.Right); n != 1 {
		t.Fatalf("%s has %d times %q; name what is to be wrong now", m.File, n, m.Right)
	}
}

// Overlay makes the mistake in a copy, and returns the overlay file for go build -overlay.
func (m Mistake) Overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	whole := testkit.Value(filepath.Abs(m.File))
	mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	wrong := strings.Replace(string(testkit.Read(t, m.File)), m.Right, m.Wrong, 1)
	testkit.Must(t, os.WriteFile(mutant, []byte(wrong), 0o600))
	testkit.Must(t, os.WriteFile(overlay, testkit.Value(json.Marshal(
		map[string]map[string]string{"Replace": {whole: mutant}})), 0o600))
	return overlay
}
