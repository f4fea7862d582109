package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Files are the PEM files of one process: the authority's certificate (or
// several in one file, while an authority is replaced), its own certificate and
// its own key. Revoked may name the authority's list of revoked certificates, or several
// lists in one file; where it does, nobody is let in without it.
type Files struct {
	CA      string `yaml:"ca" json:"ca"`
	Cert    string `yaml:"cert" json:"cert"`
	Key     string `yaml:"key" json:"key"`
	Revoked string `yaml:"revoked" json:"revoked,omitempty"`
}

// material is what Files hold, checked.
type material struct {
	pair        tls.Certificate
	roots       *x509.CertPool
	authorities []*x509.Certificate // what roots holds
	identity    Identity
}

// load reads and checks all three files: they parse, key and certificate
// belong together, the certificate is valid now, signed by the authority, and
// made for one of the roles.
func (f Files) load(now time.Time, usage x509.ExtKeyUsage, roles ...Role) (*material, error) {
	for _, field := range []struct{ name, path string }{{"ca", f.CA}, {"cert", f.Cert}, {"key", f.Key}} {
		if field.path == "" {
			return nil, fmt.Errorf("%w: %s is not set; name the PEM file", ErrMissing, field.name)
		}
	}
	rootsPEM, err := readFile(f.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(rootsPEM) {
		return nil, fmt.Errorf("%s: %w: no PEM certificate in it", f.CA, ErrMalformed)
	}
	pair, err := loadPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	if err := checkTime(pair.Leaf, f.Cert, now); err != nil {
		return nil, err
	}
	identity, err := identityOf(pair.Leaf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	if !slices.Contains(roles, identity.Role) {
		return nil, fmt.Errorf("%s: %w: it is for %s, needed is one of %v; use the file issued for that role", f.Cert, ErrWrongRole, identity, roles)
	}
	chain := []*x509.Certificate{pair.Leaf}
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", f.Cert, ErrMalformed, err)
		}
		chain = append(chain, c)
	}
	if err := verifyChain(chain, roots, usage, now); err != nil {
		return nil, fmt.Errorf("%s against %s: %w", f.Cert, f.CA, err)
	}
	return &material{pair: pair, roots: roots, authorities: certificatesIn(rootsPEM), identity: identity}, nil
}

// certificatesIn are those that x509.CertPool.AppendCertsFromPEM takes.
func certificatesIn(raw []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
	return all
}

func readFile(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; check the path and that this user may read it", ErrMissing, err)
	}
	return raw, nil
}

func loadPair(certFile, keyFile string) (tls.Certificate, error) {
	certPEM, err := readFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := readFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		// crypto/tls tells a mismatch from a parse error in words only.
		kind := ErrMalformed
		if strings.Contains(err.Error(), "does not match") {
			kind = ErrKeyMismatch
		}
		return tls.Certificate{}, fmt.Errorf("%s with %s: %w (%w); use the two files that were issued together", certFile, keyFile, kind, err)
	}
	return pair, nil
}

func checkTime(cert *x509.Certificate, file string, now time.Time) error {
	switch {
	case now.After(cert.NotAfter):
		return fmt.Errorf("%s: %w: it ended on %s; issue a new one", file, ErrExpired, cert.NotAfter.Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		return fmt.Errorf("%s: %w: it begins on %s; check this machine's clock", file, ErrExpired, cert.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// verifyChain verifies chain[0] with the rest as intermediates and gives the
// reason a name of this package.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) error {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{usage},
	})
	var foreign x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &foreign):
		return fmt.Errorf("%w (%w); use files of one authority on both sides", ErrForeign, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w (%w); issue a new one, or check the clocks", ErrExpired, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%w (%w)", ErrWrongRole, err)
	}
	return fmt.Errorf("%w (%w)", ErrForeign, err)
}
