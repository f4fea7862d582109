package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/conclave-dp/conclave/internal/certs"
)

// Reasons why a handshake ended; see [Refusal].
const (
	RefusedNoCertificate = "no_certificate"
	RefusedAuthority     = "other_authority"
	RefusedExpired       = "expired"
	RefusedRevoked       = "revoked"
	RefusedIdentity      = "no_identity"     // no role and name, or several
	RefusedCertificate   = "bad_certificate" // made for another purpose, or malformed
	RefusedOwnFiles      = "own_files"       // the own files, or the revocation list, are not in order
	RefusedProtocol      = "protocol"        // no TLS 1.3
	RefusedByPeer        = "by_peer"         // the other side does not accept us
	RefusedOther         = "other"
)

// Refusals returns all reasons.
func Refusals() []string {
	return []string{RefusedNoCertificate, RefusedAuthority, RefusedExpired, RefusedRevoked, RefusedIdentity,
		RefusedCertificate, RefusedOwnFiles, RefusedProtocol, RefusedByPeer, RefusedOther}
}

// ownError concerns this side's files.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// peerError concerns a certificate that one of our authorities signed.
type peerError struct {
	error
	name, certificate string
}

func (e *peerError) Unwrap() error { return e.error }

func newPeerError(state tls.ConnectionState, err error) error {
	name, certificate := certs.PeerName(state)
	return &peerError{err, name, certificate}
}

// RefusedPeer returns, like [PeerName], the peer that a server's handshake refused. Both are empty if the certificate
// is not from one of our authorities, because its name then proves nothing.
func RefusedPeer(err error) (name, certificate string) {
	var e *peerError
	if errors.As(err, &e) {
		return e.name, e.certificate
	}
	return "", ""
}

// Refusal is why a server's handshake failed, or empty if nobody was refused: the other side left, or sent nothing,
// as a port probe does.
func Refusal(err error) string {
	var network net.Error
	var remote *net.OpError
	var own ownError
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.As(err, &own):
		return RefusedOwnFiles
	case errors.Is(err, certs.ErrRevoked):
		return RefusedRevoked
	case errors.Is(err, certs.ErrList):
		return RefusedOwnFiles
	case errors.Is(err, certs.ErrNoIdentity):
		return RefusedIdentity
	case errors.As(err, &unverified):
		return refusedChain(unverified.Err)
	case errors.As(err, &remote) && remote.Op == "remote error":
		return RefusedByPeer
	case errors.As(err, &remote) && remote.Op == "local error", errors.As(err, new(tls.RecordHeaderError)):
		return RefusedProtocol
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed):
		return ""
	}
	// crypto/tls distinguishes these only by text.
	switch text := err.Error(); {
	case strings.Contains(text, "didn't provide a certificate"):
		return RefusedNoCertificate
	case strings.Contains(text, "protocol version"), strings.Contains(text, "unsupported"),
		strings.Contains(text, "ALPN"), strings.Contains(text, "application protocol"):
		return RefusedProtocol
	case strings.Contains(text, "certificate"):
		return RefusedCertificate
	}
	return RefusedOther
}

func refusedChain(err error) string {
	var foreign x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &foreign):
		return RefusedAuthority
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return RefusedExpired
	}
	return RefusedCertificate
}
