package certificate

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/study"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestVerify(t *testing.T) {
	raw, c, _ := example(t)
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Fatalf("a right certificate: %v", err)
	}
	c.EpsilonSpent *= 1 + 1e-12
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Errorf("rounding of the last digits: %v", err)
	}
	// The order of the mechanisms does not matter.
	c.Mechanisms[0], c.Mechanisms[1] = c.Mechanisms[1], c.Mechanisms[0]
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Errorf("another order of mechanisms: %v", err)
	}
}

// A ledger proves its events for any pipeline, including one of other programs. The pipeline is named, but this program
// makes no certificate of it.
func TestVerifyAnUnknownPipeline(t *testing.T) {
	raw, c, _ := makeExample(t, "alchemy")
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Errorf("a certificate of another program's pipeline: %v", err)
	}
	if err := c.KnownPipeline(); err == nil || !strings.Contains(err.Error(), `pipeline "alchemy" is unknown`) {
		t.Errorf("KnownPipeline says %v", err)
	}
	c.Mechanisms[1].Parameters["sigma"] = 113
	if err := c.Verify(bytes.NewReader(raw)); !errors.Is(err, ErrMechanisms) {
		t.Errorf("with less noise in the ledger: %v", err)
	}
	verified, err := ledger.Verify(bytes.NewReader(raw))
	testkit.Must(t, err)
	if _, err := New(facts(), verified); err == nil || !strings.Contains(err.Error(), `"alchemy" is unknown`) {
		t.Errorf("a new certificate: %v", err)
	}
}

func TestVerifyFindsAlteredCertificates(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(*Certificate)
		is    error
	}{
		{"another run", func(c *Certificate) { c.Run = "other" }, ErrUnknownRun},
		{"another head", func(c *Certificate) { c.LedgerHead = strings.Repeat("00", 32) }, ErrHead},
		{"smaller epsilon", func(c *Certificate) { c.Epsilon = 0.995 }, ErrBudget},
		{"smaller delta", func(c *Certificate) { c.Delta = 1e-6 }, ErrBudget},
		{"less spent", func(c *Certificate) { c.EpsilonSpent -= 1e-6 }, ErrSpent},
		{"nothing spent", func(c *Certificate) { c.EpsilonSpent = 0 }, ErrSpent},
		{"spent more than granted", func(c *Certificate) { c.EpsilonSpent = 1.5 }, ErrOverspent},
		{"more noise", func(c *Certificate) { c.Mechanisms[1].Parameters["sigma"] = 113 }, ErrMechanisms},
		{"fewer queries", func(c *Certificate) { c.Mechanisms[1].Count-- }, ErrMechanisms},
		{"fewer answers", func(c *Certificate) { c.Mechanisms[2].Parameters["answered"] = 30 }, ErrMechanisms},
		{"another kind", func(c *Certificate) { c.Mechanisms[0].Kind = privacy.Exponential }, ErrMechanisms},
		{"a mechanism missing", func(c *Certificate) { c.Mechanisms = c.Mechanisms[1:] }, ErrMechanisms},
		{"a mechanism twice", func(c *Certificate) {
			c.Mechanisms = append(c.Mechanisms, c.Mechanisms[0])
		}, ErrMechanisms},
		{"another unit", func(c *Certificate) { c.Unit = "patient" }, ErrScope},
		{"another overlap", func(c *Certificate) { c.Overlap = 2 }, ErrScope},
		{"another neighbouring", func(c *Certificate) { c.Neighbouring = "replace-one-unit" }, ErrScope},
		{"another accountant", func(c *Certificate) { c.Accountant = "pure" }, ErrAccountant},
		{"another guarantee", func(c *Certificate) { c.Guarantee = DataDependent }, ErrGuarantee},
		{"another pipeline", func(c *Certificate) { c.Pipeline = "embed" }, ErrFacts},
		{"another schema", func(c *Certificate) { c.SchemaSHA256 = sha }, ErrFacts},
		{"another student", func(c *Certificate) { c.Student = "eve" }, ErrFacts},
		{"a study", func(c *Certificate) {
			c.Study = &study.Block{Name: "s", Title: "t", Purpose: "p", Permit: "n", Contact: "c",
				Expires: "2099-01-31", SHA256: sha}
		}, ErrFacts},
		{"an invalid study", func(c *Certificate) { c.Study = &study.Block{Name: "s"} }, ErrCertificate},
		{"a purpose", func(c *Certificate) { c.Purpose = "research" }, ErrFacts},
		{"fewer teachers", func(c *Certificate) { c.Teachers, c.TeachersLeast = 199, 0 }, ErrFacts},
		{"coin flips", func(c *Certificate) { c.Votes = VotesCoin }, ErrFacts},
		{"a site missing", func(c *Certificate) { c.Roster = c.Roster[1:] }, ErrRoster},
		{"another site", func(c *Certificate) {
			c.Roster = append(slices.Clone(c.Roster), ledger.Site{Site: "west", Nodes: 1, Teachers: 1})
		}, ErrRoster},
		{"no teachers", func(c *Certificate) { c.Teachers = 0 }, ErrCertificate},
		{"malformed", func(c *Certificate) { c.SchemaSHA256 = "" }, ErrCertificate},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, certificate, _ := example(t)
			c.alter(&certificate)
			if err := certificate.Verify(bytes.NewReader(raw)); !errors.Is(err, c.is) {
				t.Errorf("%v; want %v", err, c.is)
			}
		})
	}
}

func TestVerifyFindsAlteredLedgers(t *testing.T) {
	raw, c, _ := example(t)
	lines := bytes.SplitAfter(raw, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	flipped := bytes.Replace(raw, []byte(`"sigma":112`), []byte(`"sigma":113`), 1)

	var broken *ledger.LineError
	for name, raw := range map[string][]byte{
		"empty":         nil,
		"flipped":       flipped,
		"entry removed": join(append(append([][]byte{}, lines[:4]...), lines[5:]...)...),
		"entries swapped": join(append(append([][]byte{}, lines[:3]...),
			append([][]byte{lines[4], lines[3]}, lines[5:]...)...)...),
		"last byte lost": raw[:len(raw)-1],
	} {
		if err := c.Verify(bytes.NewReader(raw)); !errors.As(err, &broken) {
			t.Errorf("%s: %v; want a *ledger.LineError", name, err)
		}
	}
	// Hashes and budgets hold, but no aggregator wrote it.
	charged, spent := releases(t, run, []privacy.Event{{Kind: privacy.GNMax, Sigma: 112, Count: 64}})
	charged[0].Answered = 63
	unwritten := writeLedger(t, append(append(opening(run, 1), charged...),
		ledger.Entry{Type: ledger.EntryClose, Run: run, Charge: ledger.Charge{EpsilonSpent: spent}})...)
	if err := c.Verify(bytes.NewReader(unwritten)); !errors.As(err, &broken) || broken.Line != 3 {
		t.Errorf("an answer that was paid for is missing: %v", err)
	}
	if err := c.Verify(bytes.NewReader(join(lines[:len(lines)-1]...))); !errors.Is(err, ErrOpenRun) {
		t.Errorf("the end cut off: %v; want %v", err, ErrOpenRun)
	}
	failing := errors.New("disk gone")
	if err := c.Verify(errorReader{failing}); !errors.Is(err, failing) {
		t.Errorf("an unreadable ledger: %v", err)
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// A dataset outlives a run: its ledger grows, and earlier certificates stay valid. A head from before the end of the
// run does not verify.
func TestVerifyInALedgerOfSeveralRuns(t *testing.T) {
	first, spent := releases(t, run, []privacy.Event{{Kind: privacy.GNMax, Sigma: 100, Count: 64}})
	entries := append(opening(run, 1), first...)
	entries = append(entries,
		ledger.Entry{Type: ledger.EntryClose, Run: run, Charge: ledger.Charge{EpsilonSpent: spent}})
	short := writeLedger(t, entries...)
	verified, err := ledger.Verify(bytes.NewReader(short))
	testkit.Must(t, err)
	c, err := New(facts(), verified)
	testkit.Must(t, err)
	second, _ := releases(t, "second", []privacy.Event{{Kind: privacy.GNMax, Sigma: 100, Count: 64}})
	entries = append(entries, opening("second", 2)[1])
	entries = append(entries, second...) // and it is still open
	long := writeLedger(t, entries...)
	if !bytes.HasPrefix(long, short) {
		t.Fatal("the longer ledger does not continue the shorter one")
	}
	if err := c.Verify(bytes.NewReader(long)); err != nil {
		t.Errorf("a ledger that went on: %v", err)
	}
	var release ledger.Entry
	for line := range bytes.Lines(short) {
		if bytes.Contains(line, []byte(`"type":"release"`)) {
			release.Hash = string(line[bytes.LastIndex(line, []byte(`"hash":"`))+8:][:64])
		}
	}
	c.LedgerHead = release.Hash
	if err := c.Verify(bytes.NewReader(long)); !errors.Is(err, ErrHead) {
		t.Errorf("a head from before the end of the run: %v; want %v", err, ErrHead)
	}
}
