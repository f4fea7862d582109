// Package roster has the list of the sites that an operator admitted to a study: their certificates, signed by the
// study's authority. Sites compare one fingerprint of the whole, so that none is shown a different list.
package roster

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/study"
)

// MaxBytes bounds the text of a roster.
const MaxBytes = 512 << 10

// FingerprintDigits is how many hex digits of a roster's fingerprint people compare. Finding two rosters that agree
// in them takes 2^80 attempts.
const FingerprintDigits = 40

// statement is the prefix of what the authority signs.
const statement = "conclave roster 1\n"

// ErrRoster says that a roster is not trustworthy.
var ErrRoster = errors.New("the roster is not valid")

// Roster lists who takes part. Its text is JSON in canonical form.
type Roster struct {
	// Study and Schema are the SHA-256 of the agreed texts, in hex, Authority the fingerprint of the signing key.
	Study     string `json:"study"`
	Schema    string `json:"schema"`
	Authority string `json:"authority"`
	Dataset   string `json:"dataset"`
	// Generation is 1 for the first roster, and increases with each that adds sites.
	Generation uint64 `json:"generation"`
	Sites      []Site `json:"sites"` // by name
}

// Site is a site of a roster.
type Site struct {
	Name string `json:"site"`
	// Key is the fingerprint of its certificate's key, Certificate the certificate in PEM.
	Key         string `json:"key"`
	Certificate string `json:"certificate"`
}

// Signed is a roster with its signature.
type Signed struct {
	Text, Signature []byte
}

// Sign makes the text of a roster and signs it with the authority in a folder.
func Sign(dir string, r Roster) (Signed, error) {
	slices.SortFunc(r.Sites, func(a, b Site) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(r)
	if err != nil {
		return Signed{}, fmt.Errorf("encode the roster: %w", err)
	}
	if _, err := Parse(text); err != nil {
		return Signed{}, err
	}
	signature, err := authority.Sign(dir, append([]byte(statement), text...))
	return Signed{text, signature}, err
}

// Parse parses the text of a roster without verifying it. Errors match [ErrRoster].
func Parse(text []byte) (*Roster, error) {
	fail := func(format string, args ...any) (*Roster, error) {
		return nil, fmt.Errorf("%w: %w", ErrRoster, fmt.Errorf(format, args...))
	}
	if len(text) > MaxBytes {
		return fail("it has more than %d bytes", MaxBytes)
	}
	r := &Roster{}
	if err := json.Unmarshal(text, r); err != nil {
		return fail("%w", err)
	}
	if again, err := json.Marshal(r); err != nil || !bytes.Equal(again, text) {
		return fail("it is not in its signed form")
	}
	if err := config.CheckName(r.Dataset); err != nil {
		return fail("dataset: %w", err)
	}
	if r.Generation == 0 || len(r.Sites) == 0 || len(r.Sites) > study.MaxSites {
		return fail("generation %d with %d sites; use generation 1 or more, with 1 to %d "+
			"sites", r.Generation, len(r.Sites),
			study.MaxSites)
	}
	keys := map[string]string{}
	for i, s := range r.Sites {
		if err := s.check(); err != nil {
			return fail("site %d: %w", i+1, err)
		}
		if i > 0 && s.Name <= r.Sites[i-1].Name {
			return fail("sites are not sorted by name")
		}
		if other, twice := keys[s.Key]; twice {
			return fail("%s and %s have the same key", other, s.Name)
		}
		keys[s.Key] = s.Name
	}
	return r, nil
}

// check refuses a site whose certificate does not match its name and key.
func (s Site) check() error {
	cert, err := s.leaf()
	if err != nil {
		return err
	}
	id, err := certs.IdentityOf(cert)
	if err != nil {
		return err
	}
	if id != (certs.Identity{Role: certs.RoleNode, Name: s.Name}) || id.CheckSite() != nil {
		return fmt.Errorf("its name is %q, but its certificate is for %s", s.Name, id)
	}
	key, err := certs.Fingerprint(cert.PublicKey)
	if err != nil {
		return err
	}
	if key != s.Key {
		return fmt.Errorf("%s: the key is not that of its certificate", s.Name)
	}
	return nil
}

func (s Site) leaf() (*x509.Certificate, error) {
	block, rest := pem.Decode([]byte(s.Certificate))
	if block == nil || block.Type != pemfile.Certificate || len(rest) > 0 {
		return nil, fmt.Errorf("%w: it has no certificate in PEM", certs.ErrMalformed)
	}
	return x509.ParseCertificate(block.Bytes)
}

// Check parses a roster and verifies the authority's signature and every certificate. The caller checks the study and
// that the roster is the newest. Errors match [ErrRoster].
func (s Signed) Check(ca *x509.Certificate, now time.Time) (*Roster, error) {
	r, err := Parse(s.Text)
	if err != nil {
		return nil, err
	}
	if err := authority.CheckStatement(ca, append([]byte(statement), s.Text...), s.Signature); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRoster, err)
	}
	if own, err := certs.Fingerprint(ca.PublicKey); err != nil || own != r.Authority {
		return nil, fmt.Errorf("%w: it was signed by another authority than it names", ErrRoster)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for _, site := range r.Sites {
		cert, err := site.leaf()
		if err == nil {
			err = certs.VerifyChain([]*x509.Certificate{cert}, roots, x509.ExtKeyUsageClientAuth, now)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: the certificate of %s: %w", ErrRoster, site.Name, err)
		}
	}
	return r, nil
}

// Fingerprint is what people compare: the start of the SHA-256 of the signed text, in hex.
func (s Signed) Fingerprint() string {
	sum := sha256.Sum256(append([]byte(statement), s.Text...))
	return hex.EncodeToString(sum[:])[:FingerprintDigits]
}

// Keys are the fingerprints of the sites' keys, by site.
func (r *Roster) Keys() map[string]string {
	keys := map[string]string{}
	for _, s := range r.Sites {
		keys[s.Name] = s.Key
	}
	return keys
}

// Site is a site of the roster by name, or nil.
func (r *Roster) Site(name string) *Site {
	for i := range r.Sites {
		if r.Sites[i].Name == name {
			return &r.Sites[i]
		}
	}
	return nil
}
