package attest_test

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
)

const hour = time.Hour

var statement = attest.Head("cohort", 7, strings.Repeat("ab", 32))

// signed is a statement signed by a node of a new authority.
func signed(t testing.TB, validity time.Duration) (attest.Signature, *x509.CertPool) {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, authority.Create(dir))
	testkit.Must(t, authority.Issue(dir, certs.RoleNode, "north", nil, validity))
	f := certs.IssuedFiles(dir, certs.RoleNode, "north")
	g, err := attest.SignBy(f, statement)
	testkit.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(testkit.Read(t, f.CA))
	return g, roots
}

func TestASignatureSaysWhoseItIs(t *testing.T) {
	g, roots := signed(t, hour)
	by, err := g.Check(statement)
	testkit.Must(t, err)
	if by.Role != certs.RoleNode || by.Name != "north" || len(by.Fingerprint) != 64 {
		t.Errorf("signed by %v, %q", by.Identity, by.Fingerprint)
	}
	testkit.Must(t, by.Under(roots, time.Now().UTC().Format(time.DateOnly)))
}

func TestWhatIsNotSigned(t *testing.T) {
	g, _ := signed(t, hour)
	other, _ := signed(t, hour)
	flipped := append([]byte{}, g.Value...)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		attest.Signature
		statement attest.Statement
	}{
		"another number":       {g, attest.Head("cohort", 8, strings.Repeat("ab", 32))},
		"another dataset":      {g, attest.Head("cohort2", 7, strings.Repeat("ab", 32))},
		"another kind":         {g, attest.Release("cohort", "7", strings.Repeat("ab", 32))},
		"another key":          {attest.Signature{Chain: other.Chain, Value: g.Value}, statement},
		"a bit":                {attest.Signature{Chain: g.Chain, Value: flipped}, statement},
		"no certificate":       {attest.Signature{Value: g.Value}, statement},
		"no value":             {attest.Signature{Chain: g.Chain}, statement},
		"five certificates":    {attest.Signature{Chain: slices.Repeat(g.Chain, 5), Value: g.Value}, statement},
		"no certificate's DER": {attest.Signature{Chain: [][]byte{[]byte("x")}, Value: g.Value}, statement},
	} {
		if _, err := c.Check(c.statement); !errors.Is(err, attest.ErrSignature) {
			t.Errorf("%s: %v, want ErrSignature", name, err)
		}
	}
}

func TestWhoIsNotBelieved(t *testing.T) {
	g, roots := signed(t, hour)
	by, err := g.Check(statement)
	testkit.Must(t, err)
	_, foreign := signed(t, hour)
	today := time.Now().UTC()
	for name, c := range map[string]struct {
		roots *x509.CertPool
		day   string
	}{
		"another authority":    {foreign, today.Format(time.DateOnly)},
		"no authority":         {x509.NewCertPool(), today.Format(time.DateOnly)},
		"a month later":        {roots, today.AddDate(0, 1, 0).Format(time.DateOnly)},
		"the year before":      {roots, today.AddDate(-1, 0, 0).Format(time.DateOnly)},
		"a day that is no day": {roots, "yesterday"},
	} {
		if err := by.Under(c.roots, c.day); !errors.Is(err, attest.ErrChain) {
			t.Errorf("%s: %v, want ErrChain", name, err)
		}
	}
}

// Signatures from a certificate's validity period stay proven: only the day of the signature counts.
func TestACertificateThatEnded(t *testing.T) {
	g, roots := signed(t, 24*hour)
	by, err := g.Check(statement)
	testkit.Must(t, err)
	testkit.Must(t, by.Under(roots, time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)))
	later := time.Now().UTC().AddDate(0, 0, 3).Format(time.DateOnly)
	if err := by.Under(roots, later); !errors.Is(err, attest.ErrChain) {
		t.Errorf("two days after its end: %v, want ErrChain", err)
	}
}
