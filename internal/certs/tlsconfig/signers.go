package tlsconfig

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// Signers tells whose signatures count: those of certificates that were issued under an authority in a file, and that
// the list of revoked certificates, where there is one, does not have. Both files are read again when they change.
type Signers struct {
	ca      string
	now     func() time.Time
	revoked *revokedFile // nil where there is no list
}

// NewSigners takes the authority's file and its list from a role's files, and a clock.
func NewSigners(f certs.Files, now func() time.Time) *Signers {
	s := &Signers{ca: f.CA, now: now}
	if f.Revoked != "" {
		s.revoked = newRevokedFile(f.Revoked, now)
	}
	return s
}

// Check says why a signer's certificate is not good at a moment. Errors match [attest.ErrChain], ErrRevoked or ErrList.
func (s *Signers) Check(by attest.Signer, moment time.Time) error {
	raw, err := pemfile.Read(s.ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return fmt.Errorf("%s: %w: no PEM certificate in it", s.ca, certs.ErrMalformed)
	}
	if err := by.At(roots, moment); err != nil {
		return err
	}
	if s.revoked == nil {
		return nil
	}
	if err := s.revoked.refresh(pemfile.Certificates(raw)); err != nil {
		return err
	}
	known, key := s.revoked.good.Load(), keyOf(by.Certificate())
	if err := known.covers(key); err != nil {
		return fmt.Errorf("%s: %w", s.revoked.path, err)
	}
	return known.check(key)
}
