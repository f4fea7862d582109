package certs

import (
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// source holds the material of Files and reads it again when a file changed.
type source struct {
	files Files
	usage x509.ExtKeyUsage
	roles []Role
	now   func() time.Time

	mu     sync.Mutex
	stamps [3]stamp
	held   *material

	revoked *revokedFile // nil where the configuration names none
}

// stamp tells versions of a file apart. Secrets in Kubernetes are replaced by
// swapping a link, which gives another file with a time of its own.
type stamp struct {
	size     int64
	modified time.Time
}

func newSource(f Files, usage x509.ExtKeyUsage, roles ...Role) *source {
	s := &source{files: f, usage: usage, roles: roles, now: time.Now}
	if f.Revoked != "" {
		s.revoked = newRevokedFile(f.Revoked, func() time.Time { return s.now() })
	}
	return s
}

// inOrder returns the material on disk, if it and the list can be relied on now and the list
// does not have the own certificate.
func (s *source) inOrder() (*material, error) {
	m, err := s.current()
	if err != nil {
		return nil, err
	}
	if err := s.lists(m); err != nil {
		return nil, err
	}
	if err := s.own(m); err != nil {
		return nil, err
	}
	return m, nil
}

// own refuses the own certificate where the list has it: whoever reads the same list turns
// its bearer away. lists comes before.
func (s *source) own(m *material) error {
	if s.revoked == nil {
		return nil
	}
	if err := s.revoked.good.Load().check(keyOf(m.pair.Leaf)); err != nil {
		return fmt.Errorf("%s, this process's own certificate: %w by the list %s; put one with a new key in its place (`conclave site request --renew --new-key`)", s.files.Cert, err, s.files.Revoked)
	}
	return nil
}

// lists says whether the list of revoked certificates, if there is to be one, can be relied
// on now.
func (s *source) lists(m *material) error {
	if s.revoked == nil {
		return nil
	}
	return s.revoked.refresh(m.authorities)
}

// admit refuses a certificate that is revoked, or of which the list says nothing. lists
// comes before.
func (s *source) admit(c *x509.Certificate) error {
	if s.revoked == nil {
		return nil
	}
	known, key := s.revoked.good.Load(), keyOf(c)
	if known == nil {
		return ErrList
	}
	if err := known.covers(key); err != nil {
		return fmt.Errorf("%s: %w", s.files.Revoked, err)
	}
	return known.check(key)
}

// current returns the material on disk. While files are being replaced they
// may not fit each other; then the material held before is used as long as it
// is valid, and the files are tried again at the next handshake.
func (s *source) current() (*material, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Stamps come first: a change during the load is seen next time.
	stamps, statErr := s.stat()
	if s.held != nil && statErr == nil && stamps == s.stamps {
		if err := checkTime(s.held.pair.Leaf, s.files.Cert, s.now()); err != nil {
			return nil, err
		}
		return s.held, nil
	}
	fresh, err := s.files.load(s.now(), s.usage, s.roles...)
	if err != nil {
		if s.held != nil && checkTime(s.held.pair.Leaf, s.files.Cert, s.now()) == nil {
			return s.held, nil
		}
		return nil, err
	}
	s.held, s.stamps = fresh, stamps
	return fresh, nil
}

func (s *source) stat() (stamps [3]stamp, err error) {
	for i, path := range []string{s.files.CA, s.files.Cert, s.files.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return stamps, err
		}
		stamps[i] = stamp{size: info.Size(), modified: info.ModTime()}
	}
	return stamps, nil
}
