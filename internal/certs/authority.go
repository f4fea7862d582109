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
	"os"
	"path/filepath"
	"time"
)

const (
	caValidity = 10 * 365 * 24 * time.Hour
	// backdate forgives clocks that are slow.
	backdate = 5 * time.Minute
	// caUsage is what an authority signs: certificates, and lists of revoked ones.
	caUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
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
// only): ca.crt and ca.key, ECDSA P-256, valid for ten years, and a list of revoked
// certificates, of which there are none. It overwrites neither certificate nor key; the
// error matches ErrExists then.
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
		KeyUsage:              caUsage,
	}
	certFile, keyFile := caFiles(dir)
	if err := writePair(template, template, key, key, certFile, keyFile); err != nil {
		return err
	}
	// From the first day, so that roles can be told to insist on it.
	_, err = writeList(dir, 0, now)
	return err
}

// RenewCA signs the certificate of the authority in dir anew, with the same key and name,
// for ten years and with the right to sign lists of revoked certificates. What it issued
// stays good. Everybody needs the new ca.crt.
func RenewCA(dir string) error { return renewCA(dir, time.Now()) }

func renewCA(dir string, now time.Time) error {
	certFile, keyFile := caFiles(dir)
	pair, err := loadPair(certFile, keyFile)
	if err != nil {
		return err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return fmt.Errorf("%s: %w: not the certificate of an authority", certFile, ErrMalformed)
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
	return replacePEM(certFile, "CERTIFICATE", der)
}

// Issue makes a certificate for role and name, signed by the authority in dir,
// and writes it there with its key (see [IssuedFiles]). hosts are the DNS names
// and IP addresses that an aggregator is dialled by; it needs at least one.
// Nothing is overwritten; the error matches ErrExists then. The certificate stands in the
// authority's register.
func Issue(dir string, role Role, name string, hosts []string, validity time.Duration) error {
	return issue(dir, Identity{Role: role, Name: name}, hosts, validity, time.Now())
}

func issue(dir string, id Identity, hosts []string, validity time.Duration, now time.Time) error {
	t, err := newTerms(dir, id, hosts, validity, now)
	if err != nil {
		return err
	}
	files := IssuedFiles(dir, id.Role, id.Name)
	if err := absent(files.Cert, files.Key); err != nil {
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
	return writeFiles(der, key, files.Cert, files.Key)
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
	if err := absent(certFile, keyFile); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("sign %s: %w", certFile, err)
	}
	return writeFiles(der, key, certFile, keyFile)
}

// absent returns an error that matches ErrExists where one of the files is there.
func absent(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return existsError(path)
		}
	}
	return nil
}

func writeFiles(der []byte, key crypto.Signer, certFile, keyFile string) error {
	if err := writeKey(keyFile, key); err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", der, 0o644); err != nil {
		return errors.Join(err, os.Remove(keyFile))
	}
	return nil
}

func writeKey(path string, key crypto.Signer) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return writePEM(path, "PRIVATE KEY", pkcs8, 0o600)
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
