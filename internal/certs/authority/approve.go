package authority

import (
	"encoding/pem"
	"time"

	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/certs/request"
)

// Issued is a certificate that was approved.
type Issued struct {
	Entry
	// PEM is the certificate, which is no secret.
	PEM []byte `json:"-"`
}

// Approve issues the requested certificate, signed by the authority in dir, and records it in the register. It is
// valid only for the identity: it can sign no other, and only an aggregator's also names hosts. The caller must
// verify the requester by the fingerprint.
//
// A key that has a certificate of another name is refused, and so is one whose certificate was revoked for anything
// but a renewal; the latter error matches ErrRevoked.
func Approve(dir string, q *request.Request, validity time.Duration) (*Issued, error) {
	now := time.Now()
	t, err := newIssuance(dir, q.Identity, q.Hosts, validity, now)
	if err != nil {
		return nil, err
	}
	der, line, err := t.sign(dir, q.PublicKey, now)
	if err != nil {
		return nil, err
	}
	return &Issued{Entry: line, PEM: pem.EncodeToMemory(&pem.Block{Type: pemfile.Certificate, Bytes: der})}, nil
}

// SaveAs writes the certificate to a new file; the error matches ErrExists if the file exists.
func (i *Issued) SaveAs(path string) error {
	block, _ := pem.Decode(i.PEM)
	return pemfile.Create(path, block.Type, block.Bytes, 0o644)
}
