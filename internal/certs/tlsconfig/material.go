package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
)

// material is the checked content of Files.
type material struct {
	pair        tls.Certificate
	roots       *x509.CertPool
	authorities []*x509.Certificate // the content of roots
}

// loadMaterial reads and checks all three files: they parse, key and certificate match, and the certificate is valid
// now, signed by the authority, and made for one of the roles.
func loadMaterial(f certs.Files, now time.Time, usage x509.ExtKeyUsage, roles ...certs.Role) (*material, error) {
	for _, field := range []struct{ name, path string }{{"ca", f.CA}, {"cert", f.Cert}, {"key", f.Key}} {
		if field.path == "" {
			return nil, fmt.Errorf("%w: %s is not set; give the PEM file", certs.ErrMissing, field.name)
		}
	}
	rootsPEM, err := pemfile.Read(f.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(rootsPEM) {
		return nil, fmt.Errorf("%s: %w: no PEM certificate in it", f.CA, certs.ErrMalformed)
	}
	pair, err := pemfile.LoadPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	if err := certs.CheckTime(pair.Leaf, f.Cert, now); err != nil {
		return nil, err
	}
	identity, err := certs.IdentityOf(pair.Leaf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	if !slices.Contains(roles, identity.Role) {
		return nil, fmt.Errorf("%s: %w: it is for %s, want one of %v; use the file issued for that role",
			f.Cert, certs.ErrWrongRole, identity, roles)
	}
	chain := []*x509.Certificate{pair.Leaf}
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", f.Cert, certs.ErrMalformed, err)
		}
		chain = append(chain, c)
	}
	if err := certs.VerifyChain(chain, roots, usage, now); err != nil {
		return nil, fmt.Errorf("verify %s with %s: %w", f.Cert, f.CA, err)
	}
	return &material{pair: pair, roots: roots, authorities: pemfile.Certificates(rootsPEM)}, nil
}
