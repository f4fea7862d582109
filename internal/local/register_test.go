package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestTheRegisterSeesASecondBudget(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "register")
	data, copied, other := filepath.Join(t.TempDir(), "a.csv"), filepath.Join(t.TempDir(), "b.csv"),
		filepath.Join(t.TempDir(), "c.csv")
	for path, text := range map[string]string{data: "x\n1\n", copied: "x\n1\n", other: "x\n0\n"} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	first, second := t.TempDir(), t.TempDir()
	var said []string
	note := func(state string, epsilon float64, files ...string) []string {
		t.Helper()
		notes, details, err := register(dir, state, "out", files, privacy.Budget{Epsilon: epsilon, Delta: 1e-6})
		testkit.Must(t, err)
		said = details
		if (len(notes) > 0) != (len(details) > 0) {
			t.Errorf("notes %q, details %q", notes, details)
		}
		return notes
	}
	if got := note(first, 1, data, data); len(got) > 0 {
		t.Errorf("the first budget is warned of: %q", got)
	}
	if got := note(first, 1, data); len(got) > 0 {
		t.Errorf("the same ledger again is warned of: %q", got)
	}
	if got := note(second, 2, other); len(got) > 0 {
		t.Errorf("another file is warned of: %q", got)
	}
	// A crash cut off the last line.
	path := filepath.Join(dir, registerFile)
	testkit.Must(t, appendTo(path, `{"file":`))
	got := note(second, 2, copied)
	if len(got) != 1 || !strings.Contains(got[0], "in 1 other ledger on") || !strings.Contains(got[0],
		"epsilon 3 and delta 2e-06") {
		t.Errorf("a copy of the file in another ledger: %q", got)
	}
	if got := note(first, 1, data); len(got) != 1 {
		t.Errorf("the first ledger is not told of the second: %q", got)
	}
	// A third budget is one line, with the newest run and a count.
	if got := note(t.TempDir(), 3, data); len(got) != 1 || len(said) != 1 ||
		!strings.HasSuffix(said[0], "a budget of epsilon 2 at delta 1e-06, and 1 other run before it.") {
		t.Errorf("the third ledger: %q, %q", got, said)
	}
	raw := string(testkit.Read(t, path))
	if strings.Contains(raw, "a.csv") || strings.Contains(raw, "b.csv") {
		t.Errorf("the register names files: %s", raw)
	}
	for _, private := range []string{registerKey, registerFile} {
		info, err := os.Stat(filepath.Join(dir, private))
		testkit.Must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", private, info.Mode())
		}
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, registerKey), []byte("short"), 0o600))
	if _, _, err := register(dir, first, "out", []string{data}, privacy.Budget{Epsilon: 1, Delta: 1e-6}); err == nil ||
		!strings.Contains(err.Error(), "64 hexadecimal digits") {
		t.Errorf("a key that is none: %v", err)
	}
}
