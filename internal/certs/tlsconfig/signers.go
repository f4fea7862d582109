package tlsconfig

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// Signers decides whose signatures count: certificates issued under an authority in a file, and not in the revocation
// list, if there is one. Both files are reloaded when they change.
type Signers struct {
	ca      string
	revoked *revokedFile // nil without a list
	since   map[string]*big.Int
}

// NewSigners uses the authority's file and its list from a role's files, and a clock.
func NewSigners(f certs.Files, now func() time.Time) *Signers {
	s := &Signers{ca: f.CA}
	if f.Revoked != "" {
		s.revoked = newRevokedFile(f.Revoked, now)
	}
	return s
}

// Check returns why a signer's certificate is not valid at a moment. Errors match [attest.ErrChain], ErrRevoked or
// ErrList.
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
	for _, err := range []error{known.covers(key), known.holds(moment), known.since(s.since)} {
		if err != nil {
			return fmt.Errorf("%s: %w", s.revoked.path, err)
		}
	}
	return known.check(key)
}

// Numbers are the numbers of the last valid lists, by the SHA-256 of their authority's name in hex.
func (s *Signers) Numbers() map[string]string {
	numbers := map[string]string{}
	if s.revoked == nil || s.revoked.good.Load() == nil {
		return numbers
	}
	for issuer, number := range s.revoked.good.Load().numbers {
		numbers[issuerSHA256(issuer)] = number.String()
	}
	return numbers
}

// Since makes it refuse lists older than these numbers, which another process may have recorded.
func (s *Signers) Since(numbers map[string]string) {
	s.since = map[string]*big.Int{}
	for issuer, text := range numbers {
		if number, ok := new(big.Int).SetString(text, 10); ok {
			s.since[issuer] = number
		}
	}
}

func issuerSHA256(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return hex.EncodeToString(sum[:])
}
