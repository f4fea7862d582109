package tlsconfig

import (
	"github.com/conclave-dp/conclave/internal/certs/attest"
)

// Sign signs a statement by the role's own certificate.
func (c *Credentials) Sign(s attest.Statement) (attest.Signature, error) {
	m, err := c.current()
	if err != nil {
		return attest.Signature{}, err
	}
	return attest.Sign(m.pair, s)
}
