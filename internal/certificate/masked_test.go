package certificate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// maskedRun is a finished run among three sites, on a dataset with more runs that opened before it.
func maskedRun(t *testing.T, earlier ...*masking.Group) (raw []byte, c Certificate) {
	t.Helper()
	entries := opening("before", 1)
	names := []string{"before"}
	group := func(colluding int) *masking.Group {
		g := &masking.Group{Quorum: 3, Colluding: colluding}
		for _, site := range []string{"east", "north", "south"} {
			g.Members = append(g.Members, masking.Member{Site: site, Key: sha256.Sum256([]byte(site))})
		}
		return g
	}
	if len(earlier) == 0 {
		entries[1].Run, entries[1].Masked = run, group(1)
		names = []string{run}
	} else {
		entries[1].Masked = earlier[0]
		mine := entries[1]
		mine.Run, mine.Masked, mine.Facts = run, group(1), runFacts(names...)
		entries = append(entries, ledger.Entry{Type: ledger.EntryClose, Run: names[0]}, mine)
		names = []string{run}
	}
	charged, spent := releases(t, run, []privacy.Event{{Kind: privacy.GNMax, Sigma: 112, Count: 64}})
	entries = append(entries, charged...)
	for _, name := range names {
		entries = append(entries, ledger.Entry{Type: ledger.EntryClose, Run: name,
			Charge: ledger.Charge{EpsilonSpent: spent}})
	}
	raw = writeLedger(t, entries...)
	c, err := New(facts(), testkit.Value(ledger.Verify(bytes.NewReader(raw))))
	testkit.Must(t, err)
	return raw, c
}

// A certificate of a masked run says so in figures and words, and verifies against the ledger in that too.
func TestCertificateOfAMaskedRun(t *testing.T) {
	raw, c := maskedRun(t)
	if m := c.Masked; m == nil || m.Sites != 3 || m.Quorum != 3 || m.Colluding != 1 ||
		math.Abs(m.NoiseFactor-math.Sqrt(1.5)) > 1e-15 {
		t.Fatalf("masked: %+v", c.Masked)
	}
	testkit.Must(t, c.Verify(bytes.NewReader(raw)))
	path := filepath.Join(t.TempDir(), "certificate.json")
	testkit.Must(t, c.WriteFile(path))
	back, err := Read(path)
	testkit.Must(t, err)
	testkit.Must(t, back.Verify(bytes.NewReader(raw)))
	text := string(testkit.Read(t, path))
	if !strings.Contains(text, "against those who see the releases") ||
		!strings.Contains(text, "charged in each site's own ledger") {
		t.Errorf("it says\n%s", text)
	}
	if _, err := Parse([]byte(strings.Replace(text, " "+MaskedNote, "", 1))); !errors.Is(err, ErrCertificate) {
		t.Errorf("without its words: %v", err)
	}
	for name, change := range map[string]func(*Certificate){
		"no masks":     func(c *Certificate) { c.Masked = nil },
		"more sites":   func(c *Certificate) { c.Masked = maskedWith(4, 4, 1) },
		"more collude": func(c *Certificate) { c.Masked = maskedWith(3, 3, 2) },
	} {
		_, c := maskedRun(t)
		change(&c)
		if err := c.Verify(bytes.NewReader(raw)); !errors.Is(err, ErrMasked) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, m := range map[string]*Masked{
		"one site":           {Sites: 1, Quorum: 1, NoiseFactor: 1},
		"a small quorum":     {Sites: 3, Quorum: 1, Colluding: 1, NoiseFactor: 1},
		"less noise, better": {Sites: 3, Quorum: 3, Colluding: 1, NoiseFactor: 1},
	} {
		_, c := maskedRun(t)
		c.Masked = m
		if err := c.Validate(); !errors.Is(err, ErrCertificate) || !strings.Contains(err.Error(), "masked: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	_, plain, _ := example(t)
	plain.Masked = c.Masked
	plainLedger, _, _ := example(t)
	if err := plain.Verify(bytes.NewReader(plainLedger)); !errors.Is(err, ErrMasked) {
		t.Errorf("a run without masks: error %v", err)
	}
}

func maskedWith(sites, quorum, colluding int) *Masked {
	g := masking.Group{Quorum: quorum, Colluding: colluding}
	return &Masked{sites, quorum, colluding, g.Surplus(sites)}
}

// A run that continues one without masks, or with other masks, is not called masked.
func TestEarlierRunsMustHaveTheSameMasks(t *testing.T) {
	for _, earlier := range []*masking.Group{nil, {Quorum: 2, Colluding: 0, Members: []masking.Member{
		{Site: "east", Key: sha256.Sum256([]byte("east"))}, {Site: "west", Key: sha256.Sum256([]byte("west"))}}}} {
		raw, c := maskedRun(t, earlier)
		if c.Masked != nil {
			t.Errorf("masked: %v", c.Masked)
		}
		testkit.Must(t, c.Verify(bytes.NewReader(raw)))
	}
}
