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
	RefusedCertificate   = "bad_certificate" // made for other things, or malformed
	RefusedOwnFiles      = "own_files"       // the own files, or the list of revoked certificates, are not in order
	RefusedProtocol      = "protocol"        // no TLS 1.3
	RefusedByPeer        = "by_peer"         // the other side does not accept us
	RefusedOther         = "other"
)

// Refusals returns all reasons.
func Refusals() []string {
	return []string{RefusedNoCertificate, RefusedAuthority, RefusedExpired, RefusedRevoked, RefusedIdentity,
		RefusedCertificate, RefusedOwnFiles, RefusedProtocol, RefusedByPeer, RefusedOther}
}

// ownError is about this side's files.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// peerError is about a certificate that an authority of ours signed.
type peerError struct {
	error
	name, certificate string
}

func (e *peerError) Unwrap() error { return e.error }

func newPeerError(state tls.ConnectionState, err error) error {
	name, certificate := certs.PeerName(state)
	return &peerError{err, name, certificate}
}

// RefusedPeer names, as [PeerName], whom a handshake of a server turned away. Both are
// empty where the certificate is not of an authority of ours: whom it names then says nothing.
func RefusedPeer(err error) (name, certificate string) {
	var e *peerError
	if errors.As(err, &e) {
		return e.name, e.certificate
	}
	return "", ""
}

// Refusal is the reason why a server's handshake ended with an error, empty where nobody
// was refused: the other side went away, or said nothing. That is what a probe of the port does.
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
	// crypto/tls tells these apart in words only.
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
