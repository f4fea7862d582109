package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// What the error about a damaged checkpoint advises is true: without it, the
// student asks its rounds anew, is given what was released, and nothing of that
// is charged again.
func TestADamagedCheckpointCanBeRemoved(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes whole runs, as others do")
	}
	dir := folder(t)
	spec, out := load(t, dir, smallRun), filepath.Join(dir, "out")
	interrupted(t, spec, out, 3)
	before := stored(t, out)
	path := filepath.Join(out, "state", "student.safetensors")
	raw := testkit.Read(t, path)
	raw[len(raw)-100] ^= 4
	testkit.Must(t, os.WriteFile(path, raw, 0o600))
	if _, err := Run(t.Context(), spec, Options{Out: out}); !errors.Is(err, pipeline.ErrDamaged) ||
		!strings.Contains(err.Error(), "remove the file and run again") {
		t.Fatalf("error %v, want that the checkpoint is damaged", err)
	}
	testkit.Must(t, os.Remove(path))
	result, err := Run(t.Context(), spec, Options{Out: out})
	testkit.Must(t, err)
	if result.Rounds != 9 || result.Queries != 65 {
		t.Errorf("%d releases of %d queries, want 9 of 65", result.Rounds, result.Queries)
	}
	ledger := testkit.Read(t, result.Outputs["ledger"])
	checkBeginsWith(t, ledger, before)
}

// checkBeginsWith checks that what was in a ledger before an interruption stands
// as it was.
func checkBeginsWith(t *testing.T, ledger []byte, before []ledger.Entry) {
	t.Helper()
	for i, line := range slices.Collect(bytes.Lines(ledger))[:len(before)] {
		if want, err := before[i].Canonical(); err != nil || !bytes.Equal(bytes.TrimSpace(line), want) {
			t.Errorf("entry %d changed after the interruption (%v)", i+1, err)
		}
	}
}
