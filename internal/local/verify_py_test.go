package local

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// python finds a Python with the package cryptography.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import cryptography").Run() == nil {
			return name
		}
	}
	t.Skip("no python3 with the package cryptography is here (Debian: python3-cryptography)")
	return ""
}

// each runs a program as python3 does, for each pair of a folder and an authority, and prints what it said and its exit
// codes. To start an interpreter takes longer than a verification.
const each = `import contextlib, io, json, runpy, sys
program, *pairs = sys.argv[1:]
results = []
for folder, authority in zip(pairs[::2], pairs[1::2]):
    sys.argv = [program, folder, authority]
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            runpy.run_path(program, run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    if not isinstance(code, int):
        said.write(code)
        code = 1
    results.append({"said": said.getvalue(), "code": code})
json.dump(results, sys.stdout)
`

// docs/verify.py, which shares no code with Conclave, gives the same results.
func TestAnotherProgramVerifies(t *testing.T) {
	t.Parallel()
	name := python(t)
	var cases, says []string
	args := []string{"-c", each, "../../docs/verify.py"}
	for _, lines := range []string{"", "aggregation: {masked: true}\n"} {
		p := prove(t, lines)
		authority := filepath.Join(p.out, "state", "certs", "ca.crt")
		for what, c := range map[string]struct {
			alter func(t *testing.T, b proof.Bundle)
			says  string // empty if everything holds
		}{
			"as it was": {func(*testing.T, proof.Bundle) {}, ""},
			"real rows": {func(t *testing.T, b proof.Bundle) {
				b["synthetic.csv"] = testkit.Read(t, filepath.Join(p.dir, "table.csv"))
				relist(t, b)
			}, "not what the run was closed with"},
			"the ledger's price": {func(t *testing.T, b proof.Bundle) {
				edit(t, b, "ledger.jsonl", `"sigma":`, `"sigma":1`)
			}, "line 2 of the ledger was altered"},
			"the pipeline": {editing("certificate.json", `"embed"`, `"dpgan"`), "'dpgan' and the ledger 'embed'"},
			"the overlap": {editing("certificate.json", `"unit": "record",`, `"unit": "record",
  "overlap": 2,`), "overlap: the certificate says 2 and the ledger None"},
			"the masks": {func(t *testing.T, b proof.Bundle) {
				if lines == "" {
					edit(t, b, "certificate.json", `"unit": "record",`, `"unit": "record",
  "masked": {"sites": 3, "quorum": 3, "colluding": 1},`)
				} else {
					edit(t, b, "certificate.json", `"quorum": `, `"quorum": 1`)
				}
			}, "masked: the certificate says "},
			"a site that did not sign": {func(t *testing.T, b proof.Bundle) {
				s := testkit.Value(proof.ParseSignatures(b["signatures.json"]))
				for i, g := range s.Ledger {
					if by := testkit.Value(g.Check(p.head(t))); by.Name == "s1" {
						s.Ledger = append(s.Ledger[:i], s.Ledger[i+1:]...)
						break
					}
				}
				b["signatures.json"] = testkit.Value(s.Canonical())
			}, "is not signed by ['s1']"},
		} {
			b := maps.Clone(p.bundle)
			c.alter(t, b)
			folder := t.TempDir()
			for name, text := range b {
				path := filepath.Join(folder, filepath.FromSlash(name))
				testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				testkit.Must(t, os.WriteFile(path, text, 0o644))
			}
			cases, says = append(cases, fmt.Sprintf("%q, %s", lines, what)), append(says, c.says)
			args = append(args, folder, authority)
		}
	}
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	testkit.Must(t, err)
	var results []struct {
		Said string
		Code int
	}
	testkit.Must(t, json.Unmarshal(out, &results))
	if len(results) != len(cases) {
		t.Fatalf("%d results of %d cases", len(results), len(cases))
	}
	for i, r := range results {
		if (r.Code == 0) != (says[i] == "") || r.Code > 1 || !strings.Contains(r.Said, says[i]) {
			t.Errorf("%s: exit code %d, want %q: %s", cases[i], r.Code, says[i], r.Said)
		}
	}
}
