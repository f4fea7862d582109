package authority

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

// ErrStatement: a statement was not signed by the authority.
var ErrStatement = errors.New("not signed by the authority")

// Sign signs a statement with the key of the authority in dir. A statement starts with descriptive words, so it can
// never be a certificate or a list, which start with an ASN.1 byte.
func Sign(dir string, statement []byte) ([]byte, error) {
	_, signer, err := load(dir, time.Now())
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(statement)
	signature, err := signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign with the authority in %s: %w", dir, err)
	}
	return signature, nil
}

// CheckStatement returns ErrStatement unless an authority signed the statement with [Sign].
func CheckStatement(ca *x509.Certificate, statement, signature []byte) error {
	if !ca.IsCA {
		return fmt.Errorf("%w: the certificate of %s is not that of an authority", ErrStatement, ca.Subject.CommonName)
	}
	if err := ca.CheckSignature(x509.ECDSAWithSHA256, statement, signature); err != nil {
		return fmt.Errorf("%w: %w", ErrStatement, err)
	}
	return nil
}

// Own is the certificate of the authority in dir, and its key's fingerprint.
func Own(dir string) (*x509.Certificate, string, error) {
	ca, _, err := load(dir, time.Now())
	if err != nil {
		return nil, "", err
	}
	fingerprint, err := certs.Fingerprint(ca.PublicKey)
	return ca, fingerprint, err
}
