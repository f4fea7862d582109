package local

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/run/results"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// proven is a finished run of two sites with its proof.
type proven struct {
	out, dir    string
	authorities *x509.CertPool
	bundle      proof.Bundle
	packed      []byte
}

// authorities has the run's own authority.
func authorities(t *testing.T, out string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(testkit.Read(t, filepath.Join(out, "state", "certs", "ca.crt")))
	return pool
}

func prove(t *testing.T, lines string) proven {
	t.Helper()
	spec, dir, out := begin(t, runOn("table.csv", embedding+lines))
	testkit.Value(Run(t.Context(), spec, Options{Out: out}))
	p := proven{out: out, dir: dir, authorities: authorities(t, out)}
	b, _, err := proof.Pack(os.DirFS(out))
	testkit.Must(t, err)
	var packed bytes.Buffer
	testkit.Must(t, b.Write(&packed))
	p.bundle, p.packed = b, packed.Bytes()
	return p
}

// A run, masked or not, is proven to anybody with the authority's certificate, as a folder and as a bundle; without
// it the verifier says so. A bundle is always packed identically, and contains no file name of a site.
func TestARunIsProven(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{"open": "", "masked": "aggregation: {masked: true}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := prove(t, lines)
			for what, found := range map[string]proof.Findings{
				"folder": proof.Verify(os.DirFS(p.out), p.authorities),
				"bundle": proof.VerifyBundle(p.bundle, p.authorities),
			} {
				if found.Worst() != proof.Proven {
					t.Errorf("%s: %+v", what, found.Checks)
				}
			}
			if worst := proof.VerifyBundle(p.bundle, nil).Worst(); worst != proof.Unsigned {
				t.Errorf("without an authority: %s", worst)
			}
			read, err := proof.ReadBundle(bytes.NewReader(p.packed), int64(len(p.packed)))
			testkit.Must(t, err)
			again, _, err := proof.Pack(os.DirFS(p.out))
			testkit.Must(t, err)
			sending, err := proof.NewSending(os.DirFS(p.out))
			testkit.Must(t, err)
			var sent bytes.Buffer
			testkit.Must(t, sending.Write(&sent))
			if sending.Bytes() != int64(len(p.packed)) || !bytes.Equal(sent.Bytes(), p.packed) {
				t.Errorf("%d bytes are announced, %d sent of %d", sending.Bytes(), sent.Len(), len(p.packed))
			}
			for what, other := range map[string]proof.Bundle{"read": read, "packed again": again} {
				if !maps.EqualFunc(p.bundle, other, bytes.Equal) {
					t.Errorf("%s it is another bundle", what)
				}
			}
			for name, text := range p.bundle {
				if bytes.Contains(text, []byte("table.csv")) || bytes.Contains(text, []byte(p.dir)) {
					t.Errorf("%s names a file of the site", name)
				}
			}
		})
	}
}

// One run serves for all that is altered in its proof.
func TestForgeries(t *testing.T) {
	t.Parallel()
	p := prove(t, "")
	for _, c := range []struct {
		name string
		test func(*testing.T, proven)
	}{
		{"the ledger has the manifest", testTheLedgerHasTheManifest},
		{"another student does not sign for the run", testAnotherStudentDoesNotSignForTheRun},
		{"a ledger that no site signed proves nothing", testALedgerThatNoSiteSignedProvesNothing},
		{"a report is checked without signature", testAReportIsCheckedWithoutSignature},
		{"a list is signed once a run is closed", testAListIsSignedOnceARunIsClosed},
		{"tampering is found", testTamperingIsFound}, // alters the folder
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, p) })
	}
}

// edit replaces a text in a file of a bundle once, and fails if it is missing.
func edit(t *testing.T, b proof.Bundle, name, old, now string) {
	t.Helper()
	if !bytes.Contains(b[name], []byte(old)) {
		t.Fatalf("%s has no %q", name, old)
	}
	b[name] = bytes.Replace(b[name], []byte(old), []byte(now), 1)
}

func editing(name, old, now string) func(*testing.T, proof.Bundle) {
	return func(t *testing.T, b proof.Bundle) { edit(t, b, name, old, now) }
}

// head is the statement that signatures of the ledger head sign.
func (p proven) head(t *testing.T) attest.Statement {
	t.Helper()
	c, err := certificate.Parse(p.bundle["certificate.json"])
	testkit.Must(t, err)
	return attest.Head(dataset, uint64(bytes.Count(p.bundle["ledger.jsonl"], []byte("\n"))), c.LedgerHead)
}

// A changed bundle is detected, even if digests, lists and signatures are updated. Each finding names the file.
func testTamperingIsFound(t *testing.T, p proven) {
	foreign := t.TempDir()
	testkit.Must(t, authority.Create(foreign))
	resign := func(t *testing.T, b proof.Bundle, role certs.Role, name string, s attest.Statement) attest.Signature {
		t.Helper()
		f := certs.IssuedFiles(foreign, role, name)
		if _, err := os.Stat(f.Cert); err != nil {
			var hosts []string
			if role == certs.RoleAggregator {
				hosts = []string{"localhost"}
			}
			testkit.Must(t, authority.Issue(foreign, role, name, hosts, validity))
		}
		return testkit.Value(attest.SignBy(f, s))
	}
	real := testkit.Read(t, filepath.Join(p.dir, "table.csv"))
	for name, c := range map[string]struct {
		alter func(t *testing.T, b proof.Bundle)
		names string
	}{
		"real rows in place of synthetic ones": {func(_ *testing.T, b proof.Bundle) {
			b["synthetic.csv"] = real
		}, "synthetic.csv"},
		"a cell": {func(_ *testing.T, b proof.Bundle) {
			i := bytes.LastIndexAny(b["synthetic.csv"], "0123456789")
			b["synthetic.csv"] = bytes.Clone(b["synthetic.csv"])
			b["synthetic.csv"][i] ^= 1
		}, "synthetic.csv"},
		"a row left out": {func(_ *testing.T, b proof.Bundle) {
			i := bytes.LastIndexByte(bytes.TrimRight(b["synthetic.csv"], "\n"), '\n')
			b["synthetic.csv"] = b["synthetic.csv"][:i+1]
			relist(t, b)
		}, "synthetic.csv"},
		"real rows and lists that fit": {func(t *testing.T, b proof.Bundle) {
			b["synthetic.csv"] = real
			relist(t, b)
		}, "signatures.json"},
		"rows": {editing("certificate.json", `"rows": `, `"rows": 1`), "manifest.json"},
		"teachers": {editing("certificate.json", "],\n  \"teachers\": ", "],\n  \"teachers\": "+
			"9"), "certificate.json"},
		"pipeline":    {editing("certificate.json", `"embed"`, `"pategan"`), "certificate.json"},
		"the student": {editing("certificate.json", `"student": "s`, `"student": "S`), "certificate.json"},
		"software":    {editing("certificate.json", `"software": "c`, `"software": "C`), "signatures.json"},
		"the day":     {editing("certificate.json", `"created": "20`, `"created": "19`), "signatures.json"},
		"the schema's digest": {func(t *testing.T, b proof.Bundle) {
			c, err := certificate.Parse(b["certificate.json"])
			testkit.Must(t, err)
			edit(t, b, "certificate.json", c.SchemaSHA256, strings.Repeat("ab", 32))
		}, "certificate.json"},
		"the schema": {func(t *testing.T, b proof.Bundle) {
			b["model/schema.yaml"] = append(bytes.Clone(b["model/schema.yaml"]), "# more\n"...)
			relist(t, b)
		}, "model/schema.yaml"},
		"the model": {func(_ *testing.T, b proof.Bundle) {
			b["model/model.json"] = append(bytes.Clone(b["model/model.json"]), '\n')
		}, "model/model.json"},
		"epsilon": {editing("certificate.json", `"epsilon": `, `"epsilon": 0.`), "certificate.json"},
		"the ledger's price": {func(t *testing.T, b proof.Bundle) {
			edit(t, b, "ledger.jsonl", `"epsilon_spent":`, `"epsilon_spent":0.`)
		}, "ledger.jsonl"},
		"the ledger head left out": {func(_ *testing.T, b proof.Bundle) {
			i := bytes.LastIndexByte(bytes.TrimRight(b["ledger.jsonl"], "\n"), '\n')
			b["ledger.jsonl"] = b["ledger.jsonl"][:i+1]
		}, "certificate.json"},
		"no signatures": {func(_ *testing.T, b proof.Bundle) { delete(b, "signatures.json") }, "signatures.json"},
		"a signature left out": {func(t *testing.T, b proof.Bundle) {
			s, err := proof.ParseSignatures(b["signatures.json"])
			testkit.Must(t, err)
			s.Ledger = s.Ledger[1:]
			b["signatures.json"] = testkit.Value(s.Canonical())
		}, "signatures.json"},
		"no student": {func(t *testing.T, b proof.Bundle) {
			s, err := proof.ParseSignatures(b["signatures.json"])
			testkit.Must(t, err)
			s.Release = nil
			b["signatures.json"] = testkit.Value(s.Canonical())
		}, "signatures.json"},
		"signatures of another authority": {func(t *testing.T, b proof.Bundle) {
			c, err := certificate.Parse(b["certificate.json"])
			testkit.Must(t, err)
			head := p.head(t)
			s, err := proof.ParseSignatures(b["signatures.json"])
			testkit.Must(t, err)
			release := resign(t, b, certs.RoleStudent, studentName, proof.ReleaseOf(c.Run, b["manifest.json"],
				b["certificate.json"], s.Reports))
			s.Release, s.Ledger = &release, []attest.Signature{
				resign(t, b, certs.RoleNode, "s0", head), resign(t, b, certs.RoleNode, "s1", head),
				resign(t, b, certs.RoleAggregator, "local", head),
			}
			b["signatures.json"] = testkit.Value(s.Canonical())
		}, "signatures.json"},
		"the report":  {editing("shared/report.md", "epsilon", "Epsilon"), "shared/report.md"},
		"the README":  {editing("README.txt", "ca.crt", "my.crt"), "README.txt"},
		"a file more": {func(_ *testing.T, b proof.Bundle) { b["rows.csv"] = real }, "rows.csv"},
		"a file less": {func(_ *testing.T, b proof.Bundle) { delete(b, "model/schema.yaml") }, "model/schema.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			b := maps.Clone(p.bundle)
			c.alter(t, b)
			found := proof.VerifyBundle(b, p.authorities)
			named := false
			for _, check := range found.Checks {
				bad := check.State == proof.Failed || check.State == proof.Missing
				named = named || bad && strings.Contains(check.What+" "+check.Says, c.names)
			}
			if !named || found.Worst() == proof.Proven {
				t.Errorf("not found, or %s is not named: %s, %+v", c.names, found.Worst(), found.Checks)
			}
		})
	}

	// Any byte of the packed file.
	r := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		raw := bytes.Clone(p.packed)
		at := r.IntN(len(raw))
		raw[at] ^= 1 << r.IntN(8)
		b, err := proof.ReadBundle(bytes.NewReader(raw), int64(len(raw)))
		if err == nil && proof.VerifyBundle(b, p.authorities).Worst() == proof.Proven {
			t.Fatalf("a bit of byte %d was altered, and the bundle holds", at)
		}
	}
	for name, raw := range map[string][]byte{
		"cut":            p.packed[:len(p.packed)-1],
		"something more": append(bytes.Clone(p.packed), 0),
		"before it":      append([]byte("x"), p.packed...),
		"nothing":        nil,
	} {
		if _, err := proof.ReadBundle(bytes.NewReader(raw), int64(len(raw))); err == nil {
			t.Errorf("%s: read", name)
		}
	}

	// Later stages refuse the same folder, and so does packing.
	testkit.Must(t, os.WriteFile(filepath.Join(p.out, "synthetic.csv"), real, 0o644))
	if _, err := results.ReadFinished(p.out); err == nil || !strings.Contains(err.Error(), "synthetic.csv") {
		t.Errorf("real rows in the folder: %v", err)
	}
	if _, _, err := proof.Pack(os.DirFS(p.out)); err == nil || !strings.Contains(err.Error(), "synthetic.csv") {
		t.Errorf("real rows in the folder, packed: %v", err)
	}
}

// The ledger has the list that a run was closed with.
func testTheLedgerHasTheManifest(t *testing.T, p proven) {
	sum := sha256.Sum256(p.bundle["manifest.json"])
	var last struct {
		Manifest string `json:"manifest_sha256"`
	}
	lines := bytes.Split(bytes.TrimRight(p.bundle["ledger.jsonl"], "\n"), []byte("\n"))
	testkit.Must(t, json.Unmarshal(lines[len(lines)-1], &last))
	if last.Manifest != hex.EncodeToString(sum[:]) {
		t.Errorf("the ledger ends with %s, the manifest has %x", last.Manifest, sum)
	}
}
