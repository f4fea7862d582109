package certificate

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// stagedLedger is a ledger of a run and of stages that continued it.
func stagedLedger(t *testing.T) []byte {
	t.Helper()
	first, spent := releases(t, run, []privacy.Event{{Kind: privacy.GNMax, Sigma: 100, Count: 64}})
	entries := append(opening(run, 1), first...)
	entries = append(entries,
		ledger.Entry{Type: ledger.EntryClose, Run: run, Charge: ledger.Charge{EpsilonSpent: spent}})
	second, spent := releases(t, run+".pgb", []privacy.Event{{Kind: privacy.GNMax, Sigma: 200, Count: 8}})
	later := opening(run+".pgb", 2)[1]
	later.Facts = runFacts(run)
	entries = append(entries, later)
	entries = append(entries, second...)
	return writeLedger(t, append(entries,
		ledger.Entry{Type: ledger.EntryClose, Run: run + ".pgb", Charge: ledger.Charge{EpsilonSpent: spent}})...)
}

// A certificate of stages also covers the runs that they continue: the events of both runs, and the budget that pays
// for both.
func TestACertificateCoversEarlierRuns(t *testing.T) {
	raw := stagedLedger(t)
	verified, err := ledger.Verify(bytes.NewReader(raw))
	testkit.Must(t, err)
	f := facts()
	f.Run = run + ".pgb"
	c, err := New(f, verified)
	testkit.Must(t, err)
	// mu squared of a query is 2/sigma squared.
	both, err := privacy.FilterGDP.Epsilon(
		[]privacy.Event{{Kind: privacy.Gaussian, Sigma: 1 / math.Sqrt(64*2e-4+8*2./200/200), Sensitivity: 1,
			Count: 1}}, 1e-5)
	testkit.Must(t, err)
	if math.Abs(c.EpsilonSpent-both) > 1e-9 || c.Epsilon != 10 || c.Accountant != "gdp" || len(c.Mechanisms) != 2 {
		t.Errorf("certificate %+v; both runs cost %v of 10", c, both)
	}
	if err := c.Verify(bytes.NewReader(raw)); err != nil {
		t.Error(err)
	}
	canonical, err := c.Canonical()
	testkit.Must(t, err)
	if again, err := Parse(canonical); err != nil || !slices.Equal(again.Earlier, c.Earlier) {
		t.Errorf("read again: %v, %v", again.Earlier, err)
	}
	for name, alter := range map[string]struct {
		change func(*Certificate)
		want   error
	}{
		"nothing earlier":   {func(c *Certificate) { c.Earlier = nil }, ErrEarlier},
		"an unknown one":    {func(c *Certificate) { c.Earlier = []string{"other"} }, ErrEarlier},
		"itself":            {func(c *Certificate) { c.Earlier = []string{c.Run} }, ErrCertificate},
		"one twice":         {func(c *Certificate) { c.Earlier = []string{run, run} }, ErrCertificate},
		"one without name":  {func(c *Certificate) { c.Earlier = []string{""} }, ErrCertificate},
		"less spent":        {func(c *Certificate) { c.EpsilonSpent *= 0.9 }, ErrSpent},
		"the stages' own":   {func(c *Certificate) { c.Epsilon = 2 }, ErrBudget},
		"a missing release": {func(c *Certificate) { c.Mechanisms = c.Mechanisms[:1] }, ErrMechanisms},
	} {
		altered := c
		altered.Mechanisms = slices.Clone(c.Mechanisms)
		alter.change(&altered)
		if err := altered.Verify(bytes.NewReader(raw)); !errors.Is(err, alter.want) {
			t.Errorf("%s: %v; want %v", name, err, alter.want)
		}
	}
}
