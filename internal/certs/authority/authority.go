// Package authority is the certificate authority of a Conclave cluster: it issues certificates, records them in a
// register, and revokes them.
//
// Start with [Create] and [Issue], which write PEM files into one folder. Keys need not be made there: package
// request makes one at a site, and [Approve] answers the request with a certificate. [Revoke] revokes certificates,
// [Inventory] lists them.
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
	// backdate tolerates slow clocks.
	backdate = 5 * time.Minute
	// caUsage is the key usage of an authority: it signs certificates and revocation lists.
	caUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
)

// Create makes a new authority in dir (created if needed, for the owner only): ca.crt and ca.key, ECDSA P-256, valid
// for ten years, and an empty revocation list. It never overwrites a certificate or key; the error then matches
// ErrExists.
func Create(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the certificate folder: %w", err)
	}
	certFile, keyFile := certs.AuthorityFiles(dir)
	if err := pemfile.Absent(certFile, keyFile); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate the authority's key: %w", err)
	}
	// Two authorities must not share a name, or a mix-up of their files
	// is reported as a bad signature.
	der, err := signOwn(&x509.Certificate{
		Subject: pkix.Name{CommonName: "Conclave CA " + rand.Text()[:8]}, MaxPathLenZero: true,
	}, key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", certFile, err)
	}
	if err := pemfile.CreatePair(der, key, certFile, keyFile); err != nil {
		return err
	}
	// The list exists from the first day, so that roles can be configured to require it.
	_, err = WriteList(dir, 0)
	return err
}

// Renew signs the certificate of the authority in dir again, with the same key and name, for ten years and with the
// right to sign revocation lists. Certificates that it issued stay valid. Every peer needs the new ca.crt.
func Renew(dir string) error {
	certFile, _ := certs.AuthorityFiles(dir)
	ca, signer, err := read(dir)
	if err != nil {
		return err
	}
	der, err := signOwn(&x509.Certificate{
		RawSubject: ca.RawSubject, SubjectKeyId: ca.SubjectKeyId,
		MaxPathLen: ca.MaxPathLen, MaxPathLenZero: ca.MaxPathLenZero,
	}, signer)
	if err != nil {
		return fmt.Errorf("sign %s: %w", certFile, err)
	}
	return pemfile.Replace(certFile, pemfile.Certificate, der)
}

// signOwn signs an authority's own certificate from a template with its name.
func signOwn(template *x509.Certificate, key crypto.Signer) (der []byte, err error) {
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(caValidity)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, caUsage
	return x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
}

// Issue makes a certificate for role and name, signed by the authority in dir, and writes it there with its key (see
// [certs.IssuedFiles]). hosts are the DNS names and IP addresses by which an aggregator is dialled; it needs at least
// one. Nothing is overwritten; the error then matches ErrExists. The certificate is recorded in the authority's
// register.
func Issue(dir string, role certs.Role, name string, hosts []string, validity time.Duration) error {
	now := time.Now()
	t, err := newIssuance(dir, certs.Identity{Role: role, Name: name}, hosts, validity, now)
	if err != nil {
		return err
	}
	files := certs.IssuedFiles(dir, role, name)
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

// read reads the certificate and the key of the authority in dir.
func read(dir string) (*x509.Certificate, crypto.Signer, error) {
	certFile, keyFile := certs.AuthorityFiles(dir)
	pair, err := pemfile.LoadPair(certFile, keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("no authority in %s; create one first: %w", dir, err)
	}
	if err != nil {
		return nil, nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, nil, fmt.Errorf("%s: %w: it is not the certificate of an authority", certFile, certs.ErrMalformed)
	}
	return pair.Leaf, signer, nil
}

// load is read for signing: it requires that the certificate is valid now.
func load(dir string, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	ca, signer, err := read(dir)
	if err != nil {
		return nil, nil, err
	}
	certFile, _ := certs.AuthorityFiles(dir)
	return ca, signer, certs.CheckTime(ca, certFile, now)
}
