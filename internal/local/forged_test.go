package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// signs signs a statement by a certificate of the run's own authority, which issues it if there is none.
func (p proven) signs(t *testing.T, role certs.Role, name string, s attest.Statement) attest.Signature {
	t.Helper()
	dir := filepath.Join(p.out, "state", "certs")
	f := certs.IssuedFiles(dir, role, name)
	if _, err := os.Stat(f.Cert); errors.Is(err, fs.ErrNotExist) {
		testkit.Must(t, authority.Issue(dir, role, name, nil, validity))
	}
	pair, err := pemfile.LoadPair(f.Cert, f.Key)
	testkit.Must(t, err)
	return testkit.Value(attest.Sign(pair, s))
}

// release signs manifest, certificate and reports of a bundle by a student.
func (p proven) release(t *testing.T, b proof.Bundle, student string) {
	t.Helper()
	c, err := certificate.Parse(b["certificate.json"])
	testkit.Must(t, err)
	s, err := proof.ParseSignatures(b["signatures.json"])
	testkit.Must(t, err)
	g := p.signs(t, certs.RoleStudent, student,
		proof.ReleaseOf(c.Run, b["manifest.json"], b["certificate.json"], s.Reports))
	s.Release = &g
	b["signatures.json"] = testkit.Value(s.Canonical())
}

// relist makes manifest and certificate fit the files of a bundle.
func relist(t *testing.T, b proof.Bundle) {
	t.Helper()
	m, err := proof.ParseManifest(b[proof.ManifestFile])
	testkit.Must(t, err)
	before := sha256.Sum256(b[proof.ManifestFile])
	for i, f := range m.Files {
		m.Files[i] = proof.FileOf(f.Name, b[f.Name])
	}
	b[proof.ManifestFile] = testkit.Value(m.Canonical())
	after := sha256.Sum256(b[proof.ManifestFile])
	edit(t, b, "certificate.json", hex.EncodeToString(before[:]), hex.EncodeToString(after[:]))
}

// failsOn is whether a check of a name or with a text in it did not hold.
func failsOn(found proof.Findings, text string) bool {
	for _, c := range found.Checks {
		if (c.State == proof.Failed || c.State == proof.Missing) && strings.Contains(c.What+" "+c.Says, text) {
			return true
		}
	}
	return false
}

// A certificate of the authority does not make another student the run's.
func TestAnotherStudentDoesNotSignForTheRun(t *testing.T) {
	t.Parallel()
	p := prove(t, "")
	for name, alter := range map[string]func(b proof.Bundle){
		"its own notes": func(b proof.Bundle) { edit(t, b, "certificate.json", `"software": "c`, `"software": "C`) },
		"its own rows": func(b proof.Bundle) {
			rows := strings.SplitAfter(string(b["synthetic.csv"]), "\n")
			rows[1] = rows[2]
			b["synthetic.csv"] = []byte(strings.Join(rows, ""))
			relist(t, b)
		},
	} {
		for student, holds := range map[string]bool{studentName: true, "eve": false} {
			b := maps.Clone(p.bundle)
			alter(b)
			p.release(t, b, student)
			if found := proof.VerifyBundle(b, p.authorities); (found.Worst() == proof.Proven) != holds ||
				!holds && !failsOn(found, "signatures.json") {
				t.Errorf("%s, signed by %s: %s, %+v", name, student, found.Worst(), found.Checks)
			}
		}
	}
}
