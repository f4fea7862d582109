package tlsconfig

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

// Peer is the other side of a connection, by its certificate.
type Peer struct {
	key      certificateKey
	notAfter time.Time
}

// NewPeer is for a certificate that a handshake verified.
func NewPeer(c *x509.Certificate) *Peer { return &Peer{key: keyOf(c), notAfter: c.NotAfter} }

// Expires is the end of the peer's certificate.
func (p *Peer) Expires() time.Time { return p.notAfter }

// Check says whether a peer's certificate has expired (ErrExpired) or was revoked
// (ErrRevoked) since its handshake. It is for every message: it looks at the file of
// revoked certificates ten times a second at most, and otherwise in memory. A file that
// can no longer be relied on says what it said last.
func (c *Credentials) Check(p *Peer) error {
	now := c.now()
	if now.After(p.notAfter) {
		return fmt.Errorf("%w: it ended on %s; dial again with a new one",
			certs.ErrExpired, p.notAfter.UTC().Format(time.RFC3339))
	}
	return c.checkRevoked(p, now)
}

// Revoked says whether a peer's certificate is revoked as the file has it now; that it may
// have expired does not matter. It is for what was received before; [Credentials.Reload]
// comes first where the answer must be of this moment.
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

// Edition is another number whenever other certificates may be revoked than before; 0
// where no list is configured.
func (c *Credentials) Edition() uint64 {
	if c.revoked == nil {
		return 0
	}
	return c.revoked.version.Load()
}

// admit refuses a new connection whose certificate is revoked, or of which the list says
// nothing. refresh comes before.
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
