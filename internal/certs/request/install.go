package request

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// Install installs the certificate issued for a request in a site's folder, over the previous one, and with it the
// key of a renewal if it matches. It first checks that the certificate names the identity, is valid, matches a key in
// the folder, and was issued by the authority in the folder's ca.crt. authority is the text of that file if it does
// not exist yet, else nil. A running role uses the new certificate from its next connection on.
func Install(dir string, role certs.Role, name string, certificate, authority []byte) (certs.SiteFiles, error) {
	id := certs.Identity{Role: role, Name: name}
	files := certs.FilesAtSite(dir, role, name)
	if err := id.Validate(); err != nil {
		return files, err
	}
	cert, err := oneCertificate(certificate)
	if err != nil {
		return files, err
	}
	switch got, err := certs.IdentityOf(cert); {
	case err != nil:
		return files, err
	case got != id:
		return files, fmt.Errorf("%w: the certificate is for %s, not for %s", certs.ErrWrongRole, got, id)
	}
	held, err := os.ReadFile(files.CA)
	switch {
	case errors.Is(err, fs.ErrNotExist) && authority != nil:
		held = authority
	case err != nil:
		return files, fmt.Errorf("%w: %w; give the authority's certificate with --ca", certs.ErrMissing, err)
	case authority != nil && !bytes.Equal(authority, held):
		return files, fmt.Errorf("%s: %w, and differs from --ca; to change the authority, put both certificates into "+
			"this file", files.CA, certs.ErrExists)
	}
	authorities := pemfile.Certificates(held)
	if len(authorities) == 0 {
		return files, fmt.Errorf("%s: %w: no PEM certificate in it", files.CA, certs.ErrMalformed)
	}
	roots := x509.NewCertPool()
	for _, one := range authorities {
		if !one.IsCA {
			return files, fmt.Errorf("%s: %w: it has the certificate of %s, which is no authority; give the "+
				"authority's ca.crt", files.CA, certs.ErrMalformed, one.Subject)
		}
		roots.AddCert(one)
	}
	usage := x509.ExtKeyUsageClientAuth
	if id.Role == certs.RoleAggregator {
		usage = x509.ExtKeyUsageServerAuth
	}
	if err := certs.VerifyChain([]*x509.Certificate{cert}, roots, usage, time.Now()); err != nil {
		return files, fmt.Errorf("verify the certificate with %s: %w", files.CA, err)
	}
	return files, place(files, cert, held)
}

// oneCertificate parses the only certificate in a PEM text.
func oneCertificate(raw []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != pemfile.Certificate || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%w: want one PEM certificate; give the file that `conclave site approve` wrote",
			certs.ErrMalformed)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", certs.ErrMalformed, err)
	}
	return cert, nil
}

// place moves the files to where roles read them. Between the two moves a role finds a key and a certificate that do
// not match, and continues with the old ones.
func place(files certs.SiteFiles, cert *x509.Certificate, authority []byte) error {
	want, err := certs.Fingerprint(cert.PublicKey)
	if err != nil {
		return err
	}
	next, err := keyFits(files.NextKey, want)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !next {
		if fits, err := keyFits(files.Key, want); err != nil {
			return err
		} else if !fits {
			return fmt.Errorf("%s: %w: the certificate is for another key; install the one that answers %s",
				files.Key, certs.ErrKeyMismatch, files.Request)
		}
	}
	if _, err := os.Stat(files.CA); errors.Is(err, fs.ErrNotExist) {
		if err := pemfile.ReplaceText(files.CA, authority); err != nil {
			return err
		}
	}
	temporary, err := pemfile.Stage(files.Cert,
		pem.EncodeToMemory(&pem.Block{Type: pemfile.Certificate, Bytes: cert.Raw}))
	if err != nil {
		return err
	}
	if next {
		if err := os.Rename(files.NextKey, files.Key); err != nil {
			return fmt.Errorf("replace %s: %w", files.Key, errors.Join(err, os.Remove(temporary)))
		}
	}
	return pemfile.Move(temporary, files.Cert)
}

func keyFits(path, fingerprint string) (bool, error) {
	key, err := pemfile.LoadKey(path)
	if err != nil {
		return false, err
	}
	got, err := certs.Fingerprint(key.Public())
	return got == fingerprint, err
}
