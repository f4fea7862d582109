// Package certstest makes authorities and certificates for tests of the neighbouring packages.
package certstest

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// New returns a folder with an authority, an aggregator "agg" for localhost
// and 127.0.0.1, a node "north" and a student "lab".
func New(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	testkit.Must(t, authority.Create(dir))
	hosts := []string{"localhost", "127.0.0.1"}
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "agg", hosts, time.Hour))
	testkit.Must(t, authority.Issue(dir, certs.RoleNode, "north", nil, time.Hour))
	testkit.Must(t, authority.Issue(dir, certs.RoleStudent, "lab", nil, time.Hour))
	return dir
}

// Aged returns the folder of an authority that is two days old, with a valid aggregator "agg" and an expired
// aggregator and node "old".
func Aged(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "aged")
	testkit.Must(t, authority.Create(dir))
	ca, _ := certs.AuthorityFiles(dir)
	began := time.Now().Add(-48 * time.Hour)
	SignAgain(t, dir, ca, func(c *x509.Certificate) { c.NotBefore = began })
	hosts := []string{"localhost", "127.0.0.1"}
	for _, role := range []certs.Role{certs.RoleAggregator, certs.RoleNode} {
		testkit.Must(t, authority.Issue(dir, role, "old", hosts, time.Hour))
		SignAgain(t, dir, certs.IssuedFiles(dir, role, "old").Cert, func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = began.Add(time.Hour), began.Add(2*time.Hour)
		})
	}
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "agg", hosts, time.Hour))
	return dir
}

// Reissue replaces the certificate of an identity.
func Reissue(t testing.TB, dir string, role certs.Role, name string, hosts []string, validity time.Duration) {
	t.Helper()
	files := certs.IssuedFiles(dir, role, name)
	testkit.Must(t, os.Remove(files.Cert))
	testkit.Must(t, os.Remove(files.Key))
	testkit.Must(t, authority.Issue(dir, role, name, hosts, validity))
}

// SignAgain replaces a certificate with one that the authority in dir would not issue: change modifies the existing
// one, and the authority signs it for the same key.
func SignAgain(t testing.TB, dir, path string, change func(*x509.Certificate)) {
	t.Helper()
	ca, key := Load(t, dir)
	template := leaf(t, path)
	public := template.PublicKey
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, ca, public, key)
	testkit.Must(t, err)
	testkit.Must(t, os.Remove(path))
	testkit.Must(t, pemfile.Create(path, pemfile.Certificate, der, 0o644))
}

// Load returns certificate and key of the authority in dir.
func Load(t testing.TB, dir string) (*x509.Certificate, crypto.Signer) {
	t.Helper()
	certFile, keyFile := certs.AuthorityFiles(dir)
	pair, err := pemfile.LoadPair(certFile, keyFile)
	testkit.Must(t, err)
	return pair.Leaf, pair.PrivateKey.(crypto.Signer)
}

func leaf(t testing.TB, path string) *x509.Certificate {
	t.Helper()
	raw := testkit.Read(t, path)
	block, _ := pem.Decode(raw)
	c, err := x509.ParseCertificate(block.Bytes)
	testkit.Must(t, err)
	return c
}
