package tlsconfig

import (
	"crypto/x509"

	"github.com/conclave-dp/conclave/internal/certs/attest"
)

// Sign signs a statement with the role's own certificate.
func (c *Credentials) Sign(s attest.Statement) (attest.Signature, error) {
	m, err := c.current()
	if err != nil {
		return attest.Signature{}, err
	}
	return attest.Sign(m.pair, s)
}

// Authorities are the authorities that the role currently trusts.
func (c *Credentials) Authorities() ([]*x509.Certificate, error) {
	m, err := c.current()
	if err != nil {
		return nil, err
	}
	return m.authorities, nil
}
