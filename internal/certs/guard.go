package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Guard knows whether the certificate of somebody who is connected still speaks for them.
// It keeps a role's files, which are read again when they change; TLS settings come from it
// too. It may be used by several goroutines.
type Guard struct{ source *source }

// NewServerGuard reads the files of an aggregator. The errors are those of [ServerTLS].
// With one that matches ErrExpired, ErrRevoked or ErrList, which files that are replaced
// mend, comes a guard nevertheless: it lets nobody in until [Guard.Look] finds all in order.
func NewServerGuard(f Files) (*Guard, error) {
	g, err := newGuard(f, x509.ExtKeyUsageServerAuth, RoleAggregator)
	if err != nil && !errors.Is(err, ErrExpired) && !errors.Is(err, ErrRevoked) && !errors.Is(err, ErrList) {
		return nil, err
	}
	return g, err
}

// NewClientGuard reads the files of whoever dials an aggregator. There is none where they are
// not in order.
func NewClientGuard(f Files) (*Guard, error) {
	g, err := newGuard(f, x509.ExtKeyUsageClientAuth, RoleNode, RoleStudent, RoleAggregator)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func newGuard(f Files, usage x509.ExtKeyUsage, roles ...Role) (*Guard, error) {
	g := &Guard{newSource(f, usage, roles...)}
	return g, g.Look()
}

// Peer is somebody who is connected, by their certificate.
type Peer struct {
	key   certificateKey
	until time.Time
}

// NewPeer is for a certificate that a handshake verified.
func NewPeer(c *x509.Certificate) *Peer { return &Peer{key: keyOf(c), until: c.NotAfter} }

// Check says whether a peer's certificate has expired (ErrExpired) or was revoked
// (ErrRevoked) since its handshake. It is for every message: it looks at the file of
// revoked certificates ten times a second at most, and otherwise in memory. A file that
// cannot be relied on any more says what it said last.
func (g *Guard) Check(p *Peer) error {
	now := g.source.now()
	if now.After(p.until) {
		return fmt.Errorf("%w: it ended on %s; dial again with a new one", ErrExpired, p.until.UTC().Format(time.RFC3339))
	}
	if g.source.revoked == nil {
		return nil
	}
	g.source.revoked.glance(now)
	return g.revoked(p)
}

// Revoked says whether a peer's certificate is revoked as the file has it now; that it may
// have expired does not matter. It is for what was received before; [Guard.Look] comes
// first where the answer must be of this moment.
func (g *Guard) Revoked(p *Peer) error {
	if g.source.revoked == nil {
		return nil
	}
	g.source.revoked.glance(g.source.now())
	return g.revoked(p)
}

// Edition is another number whenever other certificates may be revoked than before; 0 where
// no list is configured.
func (g *Guard) Edition() uint64 {
	if g.source.revoked == nil {
		return 0
	}
	return g.source.revoked.edition.Load()
}

func (g *Guard) revoked(p *Peer) error {
	known := g.source.revoked.good.Load()
	if known == nil {
		return nil
	}
	return known.check(p.key)
}

// Look looks at all files now. The error says why nobody new is let in: the own files, or
// the list of revoked certificates, are not in order, or the list has the own certificate.
func (g *Guard) Look() error {
	_, err := g.source.inOrder()
	return err
}

// Until is when the own certificate ends; zero where none could be read yet.
func (g *Guard) Until() time.Time {
	g.source.mu.Lock()
	defer g.source.mu.Unlock()
	if g.source.held == nil {
		return time.Time{}
	}
	return g.source.held.pair.Leaf.NotAfter
}
