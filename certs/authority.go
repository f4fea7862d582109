package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

const (
	caValidity = 10 * 365 * 24 * time.Hour
	// backdate forgives clocks that are slow.
	backdate = 5 * time.Minute
)

// caFiles are the files of the authority in dir.
func caFiles(dir string) (cert, key string) {
	return filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
}

// IssuedFiles names the files that [Issue] writes for an identity, with the
// authority's.
func IssuedFiles(dir string, role Role, name string) Files {
	base := filepath.Join(dir, string(role)+"-"+name)
	ca, _ := caFiles(dir)
	return Files{CA: ca, Cert: base + ".crt", Key: base + ".key"}
}

// CreateCA makes a new authority in dir (created when needed, for the owner
// only): ca.crt and ca.key, ECDSA P-256, valid for ten years. It overwrites
// nothing; the error matches ErrExists then.
func CreateCA(dir string) error { return createCA(dir, time.Now()) }

func createCA(dir string, now time.Time) error {
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
		KeyUsage:              x509.KeyUsageCertSign,
	}
	certFile, keyFile := caFiles(dir)
	return writePair(template, template, key, key, certFile, keyFile)
}

// Issue makes a certificate for role and name, signed by the authority in dir,
// and writes it there with its key (see [IssuedFiles]). hosts are the DNS names
// and IP addresses that an aggregator is dialled by; it needs at least one.
// Nothing is overwritten; the error matches ErrExists then.
func Issue(dir string, role Role, name string, hosts []string, validity time.Duration) error {
	return issue(dir, Identity{Role: role, Name: name}, hosts, validity, time.Now())
}

func issue(dir string, id Identity, hosts []string, validity time.Duration, now time.Time) error {
	if err := id.validate(); err != nil {
		return err
	}
	if validity <= 0 {
		return fmt.Errorf("validity %v must be positive", validity)
	}
	// Not in validate: the name of a certificate that another authority issued
	// is compared with the site's when it is used.
	if id.Role == RoleNode && !sitePattern.MatchString(id.Name) {
		return fmt.Errorf("name %q is no name of a site; a node's is that of its site: 1 to 64 small letters, digits, dots and hyphens, with a letter or digit at both ends", id.Name)
	}
	ips, names, err := splitHosts(id.Role, hosts)
	if err != nil {
		return err
	}
	ca, caKey, err := loadCA(dir, now)
	if err != nil {
		return err
	}
	if now.Add(validity).After(ca.NotAfter) {
		return fmt.Errorf("validity %v ends after the authority's own, on %s; ask for less, or create a new authority", validity, ca.NotAfter.Format(time.DateOnly))
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: string(id.Role) + "-" + id.Name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:                  []*url.URL{id.uri()},
		IPAddresses:           ips,
		DNSNames:              names,
	}
	if id.Role == RoleAggregator {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate a key: %w", err)
	}
	files := IssuedFiles(dir, id.Role, id.Name)
	return writePair(template, ca, key, caKey, files.Cert, files.Key)
}

func loadCA(dir string, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	certFile, keyFile := caFiles(dir)
	pair, err := loadPair(certFile, keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("no authority in %s, create one first: %w", dir, err)
	}
	if err != nil {
		return nil, nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, nil, fmt.Errorf("%s: %w: not the certificate of an authority", certFile, ErrMalformed)
	}
	if err := checkTime(pair.Leaf, certFile, now); err != nil {
		return nil, nil, err
	}
	return pair.Leaf, signer, nil
}

// writePair signs template and writes certificate and key, both or neither.
func writePair(template, parent *x509.Certificate, key, signer crypto.Signer, certFile, keyFile string) error {
	for _, path := range []string{certFile, keyFile} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return existsError(path)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("sign %s: %w", certFile, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", keyFile, err)
	}
	if err := writePEM(keyFile, "PRIVATE KEY", pkcs8, 0o600); err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", der, 0o644); err != nil {
		return errors.Join(err, os.Remove(keyFile))
	}
	return nil
}

func existsError(path string) error {
	return fmt.Errorf("%s: %w; move it away first if it is to be replaced", path, ErrExists)
}

// writePEM creates the file and fails when there is one, whoever was faster.
func writePEM(path, kind string, der []byte, mode fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return existsError(path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(path)))
		}
	}()
	if err := pem.Encode(f, &pem.Block{Type: kind, Bytes: der}); err != nil {
		return err
	}
	return f.Sync()
}
