package certs

import (
	"encoding/pem"
	"fmt"
	"strings"
	"time"
)

// Issued is a certificate that was approved.
type Issued struct {
	Entry
	// PEM is the certificate, which is no secret.
	PEM []byte `json:"-"`
}

// Approve issues the certificate that a request asks for, signed by the authority in dir,
// and records it in the register. It is for the identity alone: it can sign no other, and
// an aggregator's names its hosts besides. Whether the request comes from whom it names is
// for the caller to know, by its fingerprint.
//
// A key that has a certificate of another name is refused, and so is one whose certificate
// was revoked for anything but a renewal; the latter error matches ErrRevoked.
func Approve(dir string, q *Request, validity time.Duration) (*Issued, error) {
	return approve(dir, q, validity, time.Now())
}

func approve(dir string, q *Request, validity time.Duration, now time.Time) (*Issued, error) {
	t, err := newTerms(dir, q.Identity, q.Hosts, validity, now)
	if err != nil {
		return nil, err
	}
	der, line, err := t.sign(dir, q.public, now)
	if err != nil {
		return nil, err
	}
	return &Issued{Entry: line, PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// SaveAs writes the certificate to a file that must not be there; the error matches
// ErrExists otherwise.
func (i *Issued) SaveAs(path string) error {
	block, _ := pem.Decode(i.PEM)
	return writePEM(path, block.Type, block.Bytes, 0o644)
}

// SpellFingerprint writes a fingerprint in groups, to be read out.
func SpellFingerprint(fingerprint string) string {
	var groups []string
	for len(fingerprint) > 4 {
		groups = append(groups, fingerprint[:4])
		fingerprint = fingerprint[4:]
	}
	return strings.Join(append(groups, fingerprint), " ")
}

// CheckFingerprint compares the request's fingerprint with one that somebody read out:
// 64 hex digits, in groups or not.
func (q *Request) CheckFingerprint(told string) error {
	plain := strings.ToLower(strings.NewReplacer(" ", "", ":", "").Replace(told))
	if len(plain) != len(q.Fingerprint) || strings.Trim(plain, "0123456789abcdef") != "" {
		return fmt.Errorf("fingerprint %q is not one; give all %d hex digits that `conclave site request` printed", told, len(q.Fingerprint))
	}
	if plain != q.Fingerprint {
		return fmt.Errorf("the request has another key: its fingerprint is %s; do not approve it", SpellFingerprint(q.Fingerprint))
	}
	return nil
}
