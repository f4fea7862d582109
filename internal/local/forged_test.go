package local

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// signs signs a statement with a certificate of the run's own authority, which issues it if needed.
func (p proven) signs(t *testing.T, role certs.Role, name string, s attest.Statement) attest.Signature {
	t.Helper()
	dir := filepath.Join(p.out, "state", "certs")
	f := certs.IssuedFiles(dir, role, name)
	if _, err := os.Stat(f.Cert); errors.Is(err, fs.ErrNotExist) {
		testkit.Must(t, authority.Issue(dir, role, name, nil, validity))
	}
	return testkit.Value(attest.SignBy(f, s))
}

// release signs manifest, certificate and reports of a bundle as a student.
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

// relist updates manifest and certificate to match the files of a bundle.
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

// failsOn reports whether a check with this name or text failed.
func failsOn(found proof.Findings, text string) bool {
	for _, c := range found.Checks {
		if (c.State == proof.Failed || c.State == proof.Missing) && strings.Contains(c.What+" "+c.Says, text) {
			return true
		}
	}
	return false
}

// Another student's certificate from the same authority cannot sign for the run.
func testAnotherStudentDoesNotSignForTheRun(t *testing.T, p proven) {
	for name, alter := range map[string]func(b proof.Bundle){
		"its own notes": func(b proof.Bundle) { edit(t, b, "certificate.json", `"software": "c`, `"software": "C`) },
		"its own rows": func(b proof.Bundle) {
			rows := strings.SplitAfter(string(b["synthetic.csv"]), "\n")
			rows[1] = rows[2]
			b["synthetic.csv"] = []byte(strings.Join(rows, ""))
			relist(t, b)
		},
	} {
		for student, holds := range map[string]bool{studentName: name == "its own notes", "eve": false} {
			b := maps.Clone(p.bundle)
			alter(b)
			p.release(t, b, student)
			if found := proof.VerifyBundle(b, p.authorities); (found.Worst() == proof.Proven) != holds ||
				!holds && !failsOn(found, "signatures.json") && !failsOn(found, "manifest.json") {
				t.Errorf("%s, signed by %s: %s, %+v", name, student, found.Worst(), found.Checks)
			}
		}
	}
}

// reseal makes a ledger from the run's own entries, changed by alter, with a certificate signed by the aggregator and
// the student, but by no site.
func (p proven) reseal(t *testing.T, run string, alter func([]ledger.Entry) []ledger.Entry) proof.Bundle {
	t.Helper()
	b := maps.Clone(p.bundle)
	c, err := certificate.Parse(b["certificate.json"])
	testkit.Must(t, err)
	s, err := proof.ParseSignatures(b["signatures.json"])
	testkit.Must(t, err)
	m, err := proof.ParseManifest(b[proof.ManifestFile])
	testkit.Must(t, err)
	m.Run = run
	b[proof.ManifestFile] = testkit.Value(m.Canonical())
	sum := sha256.Sum256(b[proof.ManifestFile])
	var entries []ledger.Entry
	for line := range bytes.Lines(b["ledger.jsonl"]) {
		var e ledger.Entry
		testkit.Must(t, json.Unmarshal(line, &e))
		entries = append(entries, e)
	}
	entries = alter(entries)
	entries[len(entries)-1].Manifest = hex.EncodeToString(sum[:])
	var text []byte
	var last *ledger.Entry
	for _, e := range entries {
		testkit.Must(t, e.Seal(last))
		text = append(append(text, testkit.Value(e.Canonical())...), '\n')
		last = &e
	}
	b["ledger.jsonl"] = text
	verified, err := ledger.VerifyStrict(bytes.NewReader(text))
	testkit.Must(t, err)
	created, err := time.Parse(time.DateOnly, c.Created)
	testkit.Must(t, err)
	forged, err := certificate.New(certificate.Facts{
		Run: run, Guarantee: c.Guarantee, Rows: c.Rows, TeachersLeast: c.Teachers,
		Manifest: hex.EncodeToString(sum[:]), Created: created, Software: c.Software,
	}, verified)
	testkit.Must(t, err)
	b["certificate.json"] = testkit.Value(forged.Canonical())
	s.Ledger = []attest.Signature{p.signs(t, certs.RoleAggregator, "local",
		attest.Head(verified.Dataset, uint64(verified.Entries), verified.Head))}
	b["signatures.json"] = testkit.Value(s.Canonical())
	p.release(t, b, studentName)
	return b
}

// An aggregator and a student without any site prove nothing: neither with a run that asked nothing, nor with one
// that continues another and asked nothing itself.
func testALedgerThatNoSiteSignedProvesNothing(t *testing.T, p proven) {
	first := map[string]ledger.Entry{}
	only := func(types ...string) func([]ledger.Entry) []ledger.Entry {
		return func(all []ledger.Entry) (kept []ledger.Entry) {
			for _, e := range all {
				first[e.Type] = e
				if slices.Contains(types, e.Type) {
					e.EpsilonSpent = 0
					kept = append(kept, e)
				}
			}
			return kept
		}
	}
	everything := only()
	for what, b := range map[string]proof.Bundle{
		"nothing asked": p.reseal(t, "small", only(ledger.EntryOpen, ledger.EntryRun, ledger.EntryClose)),
		"after another": p.reseal(t, "small.more", func(all []ledger.Entry) []ledger.Entry {
			everything(all)
			all[0].Budget.Epsilon *= 2
			open, end := first[ledger.EntryRun], first[ledger.EntryClose]
			facts := *open.Facts
			facts.Earlier = []string{open.Run}
			open.Run, open.Facts = "small.more", &facts
			end.Run, end.EpsilonSpent = "small.more", 0
			return append(all, open, end)
		}),
	} {
		found := proof.Verify(b, p.authorities)
		if found.Worst() != proof.Missing || !failsOn(found, "signatures.json") {
			t.Errorf("%s: %s, %+v", what, found.Worst(), found.Checks)
		}
	}
}

// A report that differs from the listed one is found even without signatures and without a named authority.
func testAReportIsCheckedWithoutSignature(t *testing.T, p proven) {
	b := maps.Clone(p.bundle)
	s, err := proof.ParseSignatures(b["signatures.json"])
	testkit.Must(t, err)
	s.Release = nil
	b["signatures.json"] = testkit.Value(s.Canonical())
	if worst := proof.VerifyBundle(b, nil).Worst(); worst != proof.Missing {
		t.Fatalf("nobody signed: %s", worst)
	}
	edit(t, b, "shared/report.md", "epsilon", "Epsilon")
	if found := proof.VerifyBundle(b, nil); found.Worst() != proof.Failed || !failsOn(found, "shared/report.md") {
		t.Errorf("%s, %+v", found.Worst(), found.Checks)
	}
}

// Even the run's own student cannot sign a different list from the one that the run was closed with.
func testAListIsSignedOnceARunIsClosed(t *testing.T, p proven) {
	b := maps.Clone(p.bundle)
	rows := strings.SplitAfter(string(b["synthetic.csv"]), "\n")
	rows[1] = rows[2]
	b["synthetic.csv"] = []byte(strings.Join(rows, ""))
	relist(t, b)
	p.release(t, b, studentName)
	if found := proof.Verify(b, p.authorities); found.Worst() != proof.Failed || !failsOn(found, "manifest.json") {
		t.Errorf("%s, %+v", found.Worst(), found.Checks)
	}
}
