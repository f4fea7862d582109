// Package authority is the certificate authority of a Conclave cluster: it issues
// certificates, keeps a register of them, and revokes them.
//
// Start with [Create] and [Issue], which write PEM files into one folder. Keys need not be
// made there: package request makes one at a site, and [Approve] answers the request with a
// certificate. [Revoke] takes certificates back, [Inventory] lists them.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

const (
	caValidity = 10 * 365 * 24 * time.Hour
	// backdate forgives clocks that are slow.
	backdate = 5 * time.Minute
	// caUsage is what an authority signs: certificates, and lists of revoked ones.
	caUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
)

// Create makes a new authority in dir (created when needed, for the owner
// only): ca.crt and ca.key, ECDSA P-256, valid for ten years, and a list of revoked
// certificates, of which there are none. It overwrites neither certificate nor key; the
// error matches ErrExists then.
func Create(dir string) error { return create(dir, time.Now()) }

func create(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the certificate folder: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate the authority's key: %w", err)
	}
	template := &x509.Certificate{
		// Two authorities must not share a name, or a mix-up of their files
		// is reported as a bad signature.
		Subject:               pkix.Name{CommonName: "Conclave CA " + rand.Text()[:8]},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caValidity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              caUsage,
	}
	certFile, keyFile := certs.AuthorityFiles(dir)
	if err := writePair(template, template, key, key, certFile, keyFile); err != nil {
		return err
	}
	// From the first day, so that roles can be told to insist on it.
	_, err = writeList(dir, 0, now)
	return err
}

// Renew signs the certificate of the authority in dir anew, with the same key and name,
// for ten years and with the right to sign lists of revoked certificates. What it issued
// stays good. Everybody needs the new ca.crt.
func Renew(dir string) error { return renew(dir, time.Now()) }

func renew(dir string, now time.Time) error {
	certFile, keyFile := certs.AuthorityFiles(dir)
	pair, err := pemfile.LoadPair(certFile, keyFile)
	if err != nil {
		return err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return fmt.Errorf("%s: %w: not the certificate of an authority", certFile, certs.ErrMalformed)
	}
	template := &x509.Certificate{
		RawSubject:            pair.Leaf.RawSubject,
		SubjectKeyId:          pair.Leaf.SubjectKeyId,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caValidity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLen:            pair.Leaf.MaxPathLen,
		MaxPathLenZero:        pair.Leaf.MaxPathLenZero,
		KeyUsage:              caUsage,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return fmt.Errorf("sign %s: %w", certFile, err)
	}
	return pemfile.Replace(certFile, pemfile.Certificate, der)
}

// Issue makes a certificate for role and name, signed by the authority in dir,
// and writes it there with its key (see [certs.IssuedFiles]). hosts are the DNS names
// and IP addresses that an aggregator is dialled by; it needs at least one.
// Nothing is overwritten; the error matches ErrExists then. The certificate stands in the
// authority's register.
func Issue(dir string, role certs.Role, name string, hosts []string, validity time.Duration) error {
	return issue(dir, certs.Identity{Role: role, Name: name}, hosts, validity, time.Now())
}

func issue(dir string, id certs.Identity, hosts []string, validity time.Duration, now time.Time) error {
	t, err := newIssuance(dir, id, hosts, validity, now)
	if err != nil {
		return err
	}
	files := certs.IssuedFiles(dir, id.Role, id.Name)
	if err := pemfile.Absent(files.Cert, files.Key); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate a key: %w", err)
	}
	der, _, err := t.sign(dir, key.Public(), now)
	if err != nil {
		return err
	}
	return pemfile.CreatePair(der, key, files.Cert, files.Key)
}

func load(dir string, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	certFile, keyFile := certs.AuthorityFiles(dir)
	pair, err := pemfile.LoadPair(certFile, keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("no authority in %s, create one first: %w", dir, err)
	}
	if err != nil {
		return nil, nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, nil, fmt.Errorf("%s: %w: not the certificate of an authority", certFile, certs.ErrMalformed)
	}
	if err := certs.CheckTime(pair.Leaf, certFile, now); err != nil {
		return nil, nil, err
	}
	return pair.Leaf, signer, nil
}

// writePair signs template and writes certificate and key, both or neither.
func writePair(template, parent *x509.Certificate, key, signer crypto.Signer, certFile, keyFile string) error {
	if err := pemfile.Absent(certFile, keyFile); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("sign %s: %w", certFile, err)
	}
	return pemfile.CreatePair(der, key, certFile, keyFile)
}
