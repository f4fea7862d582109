package tlsconfig

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

// Peer is the other side of a connection, identified by its certificate.
type Peer struct {
	key      certificateKey
	notAfter time.Time
}

// NewPeer is for a certificate that a handshake verified.
func NewPeer(c *x509.Certificate) *Peer { return &Peer{key: keyOf(c), notAfter: c.NotAfter} }

// Expires is the end of the peer's certificate.
func (p *Peer) Expires() time.Time { return p.notAfter }

// Check returns an error if a peer's certificate has expired (ErrExpired) or was revoked (ErrRevoked) since its
// handshake. It is called for every message: it checks the revocation file at most ten times a second, and otherwise
// memory. If the file becomes unusable, its last content counts.
func (c *Credentials) Check(p *Peer) error {
	now := c.now()
	if now.After(p.notAfter) {
		return fmt.Errorf("%w: it expired on %s; connect again with a new one",
			certs.ErrExpired, p.notAfter.UTC().Format(time.RFC3339))
	}
	return c.checkRevoked(p, now)
}

// Revoked returns an error if a peer's certificate is revoked in the loaded list, whether or not it has expired. It
// is for messages received before; call [Credentials.Reload] first if the answer must be current.
func (c *Credentials) Revoked(p *Peer) error { return c.checkRevoked(p, c.now()) }

func (c *Credentials) checkRevoked(p *Peer, now time.Time) error {
	if c.revoked == nil {
		return nil
	}
	c.revoked.glance(now)
	known := c.revoked.good.Load()
	if known == nil {
		return nil
	}
	return known.check(p.key)
}

// Edition is a number that changes whenever the set of revoked certificates may have changed; 0 if no list is
// configured.
func (c *Credentials) Edition() uint64 {
	if c.revoked == nil {
		return 0
	}
	return c.revoked.version.Load()
}

// admit refuses a new connection whose certificate is revoked, or whose authority has no list. Call refresh first.
func (c *Credentials) admit(peer *x509.Certificate) error {
	if c.revoked == nil {
		return nil
	}
	known, key := c.revoked.good.Load(), keyOf(peer)
	if known == nil {
		return certs.ErrList
	}
	if err := known.covers(key); err != nil {
		return fmt.Errorf("%s: %w", c.files.Revoked, err)
	}
	return known.check(key)
}
