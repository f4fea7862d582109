package tlsconfig

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

// Credentials are a role's certificate, key, authorities and revocation list, reloaded when their files change. They
// provide TLS settings, and check whether the certificate of a connected peer is still valid. They are safe for
// concurrent use.
type Credentials struct {
	files certs.Files
	usage x509.ExtKeyUsage
	roles []certs.Role
	now   func() time.Time

	mu     sync.Mutex
	stamps [3]stamp
	loaded *material

	revoked *revokedFile // nil if the configuration names none
}

// stamp distinguishes versions of a file. Kubernetes replaces Secrets by swapping a link, which gives another file
// with its own time.
type stamp struct {
	size     int64
	modified time.Time
}

// NewServerCredentials reads the files of an aggregator. The errors are those of [Server]. Replacing the files fixes
// an error that matches ErrExpired, ErrRevoked or ErrList, so it comes with credentials: they accept nobody until
// [Credentials.Reload] succeeds.
func NewServerCredentials(f certs.Files) (*Credentials, error) {
	c := newCredentials(f, x509.ExtKeyUsageServerAuth, certs.RoleAggregator)
	err := c.Reload()
	if err != nil && !errors.Is(err, certs.ErrExpired) && !errors.Is(err, certs.ErrRevoked) && !errors.Is(err,
		certs.ErrList) {
		return nil, err
	}
	return c, err
}

// NewClientCredentials reads the files of a role that dials an aggregator. It returns nil if the files are not in
// order.
func NewClientCredentials(f certs.Files) (*Credentials, error) {
	c := newCredentials(f, x509.ExtKeyUsageClientAuth, certs.Roles()...)
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

func newCredentials(f certs.Files, usage x509.ExtKeyUsage, roles ...certs.Role) *Credentials {
	c := &Credentials{files: f, usage: usage, roles: roles, now: time.Now}
	if f.Revoked != "" {
		c.revoked = newRevokedFile(f.Revoked, func() time.Time { return c.now() })
	}
	return c
}

// Reload checks all files now. The error says why no new peer is accepted: the own files or the revocation list are
// not in order, or the list has the own certificate.
func (c *Credentials) Reload() error {
	_, err := c.inOrder()
	return err
}

// NotAfter is when the own certificate expires; zero if none could be read yet.
func (c *Credentials) NotAfter() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded == nil {
		return time.Time{}
	}
	return c.loaded.pair.Leaf.NotAfter
}

// inOrder returns the material on disk if it and the list are usable now and the list does not have the own
// certificate.
func (c *Credentials) inOrder() (*material, error) {
	m, err := c.current()
	if err != nil {
		return nil, err
	}
	if err := c.revoked.refresh(m.authorities); err != nil {
		return nil, err
	}
	if err := c.checkOwn(m); err != nil {
		return nil, err
	}
	return m, nil
}

// current returns the material on disk. While files are being replaced they may not match; then the earlier material
// is used while it is valid, and the next handshake tries again.
func (c *Credentials) current() (*material, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Stamps come first, so that a change during the load is seen next time.
	stamps, statErr := c.stat()
	if c.loaded != nil && statErr == nil && stamps == c.stamps {
		if err := certs.CheckTime(c.loaded.pair.Leaf, c.files.Cert, c.now()); err != nil {
			return nil, err
		}
		return c.loaded, nil
	}
	fresh, err := loadMaterial(c.files, c.now(), c.usage, c.roles...)
	if err != nil {
		if c.loaded != nil && certs.CheckTime(c.loaded.pair.Leaf, c.files.Cert, c.now()) == nil {
			return c.loaded, nil
		}
		return nil, err
	}
	c.loaded, c.stamps = fresh, stamps
	return fresh, nil
}

func (c *Credentials) stat() (stamps [3]stamp, err error) {
	for i, path := range []string{c.files.CA, c.files.Cert, c.files.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return stamps, err
		}
		stamps[i] = stamp{size: info.Size(), modified: info.ModTime()}
	}
	return stamps, nil
}

// checkOwn refuses the own certificate if the list has it, because a peer with the same list would refuse it. Call
// refresh first.
func (c *Credentials) checkOwn(m *material) error {
	if c.revoked == nil {
		return nil
	}
	if err := c.revoked.good.Load().check(keyOf(m.pair.Leaf)); err != nil {
		return fmt.Errorf("%s, this process's own certificate: %w by the list %s; replace it with one for a new key "+
			"(`conclave site request --renew --new-key`)", c.files.Cert, err, c.files.Revoked)
	}
	return nil
}
