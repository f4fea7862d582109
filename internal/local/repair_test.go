package local

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A run was closed, and its student was stopped before it wrote all of its proof, or its site was away at the
// end. When it is started again, the files are those of the first time, and nothing is missing.
func TestAProofIsFinishedByRunningAgain(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{"open": "", "masked": "aggregation: {masked: true}\n"} {
		for what, harm := range map[string]func(t *testing.T, out string){
			"a site was away": func(t *testing.T, out string) {
				path := filepath.Join(out, proof.SignaturesFile)
				s, err := proof.ParseSignatures(testkit.Read(t, path))
				testkit.Must(t, err)
				s.Ledger = s.Ledger[1:]
				testkit.Must(t, os.WriteFile(path, testkit.Value(s.Canonical()), 0o600))
			},
			"stopped after it was closed": func(t *testing.T, out string) {
				for _, file := range []string{proof.SignaturesFile, "certificate.json", "ledger.jsonl"} {
					testkit.Must(t, os.Remove(filepath.Join(out, file)))
				}
				testkit.Must(t, os.RemoveAll(filepath.Join(out, "shared")))
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				spec, _, out := begin(t, runOn("table.csv", embedding+lines))
				testkit.Value(Run(t.Context(), spec, Options{Out: out}))
				rows := testkit.Read(t, filepath.Join(out, "synthetic.csv"))
				harm(t, out)
				if worst := findings(t, out).Worst(); worst == proof.Proven {
					t.Fatal("nothing is missing")
				}
				// A local run does not touch a finished folder; a student of a cluster does.
				if err := os.Remove(filepath.Join(out, "certificate.json")); !errors.Is(err, fs.ErrNotExist) {
					testkit.Must(t, err)
				}
				testkit.Value(Run(t.Context(), spec, Options{Out: out}))
				if found := findings(t, out); found.Worst() != proof.Proven {
					t.Errorf("%+v", found.Checks)
				}
				if !bytes.Equal(rows, testkit.Read(t, filepath.Join(out, "synthetic.csv"))) {
					t.Error("the rows are others")
				}
			})
		}
	}
}

func findings(t *testing.T, out string) proof.Findings {
	t.Helper()
	folder, err := proof.OpenFolder(out)
	testkit.Must(t, err)
	defer folder.Close()
	return proof.Verify(folder, authorities(t, out))
}
