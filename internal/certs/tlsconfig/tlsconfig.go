// Package tlsconfig has the TLS settings of the roles, from files that are reloaded when they change, and checks
// whether a peer's certificate is still valid.
//
// Start with [Server] or [Client]. Both sides always present a certificate, and use only TLS 1.3. Replaced files are
// used from the next handshake on. Existing connections keep their settings, and [Credentials.Check] checks the other
// side's certificate for every message. Revocation takes effect on peers that have the new list.
//
// [Probe] and [Refusal] tell why a handshake failed.
package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

// protocols are offered in the handshake; gRPC requires h2.
var protocols = []string{"h2", "http/1.1"}

// Server is an aggregator's listener configuration: TLS 1.3 with a required client certificate of the same authority.
// The files are checked now, with an error that names the file and the fix, and again when they change on disk.
//
// It accepts clients of every role: check [certs.PeerIdentity] before answering.
func Server(f certs.Files) (*tls.Config, error) {
	c, err := NewServerCredentials(f)
	if err != nil {
		return nil, err
	}
	return c.ServerTLS(), nil
}

// ServerTLS is [Server] with these credentials.
func (c *Credentials) ServerTLS() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m, err := c.inOrder()
		if err != nil {
			return nil, ownError{err}
		}
		// A new config per handshake also prevents session resumption, so that every connection is checked against
		// the current files.
		return &tls.Config{
			MinVersion:   tls.VersionTLS13,
			NextProtos:   protocols,
			Certificates: []tls.Certificate{m.pair},
			ClientCAs:    m.roots,
			ClientAuth:   tls.RequireAndVerifyClientCert,
			VerifyConnection: func(state tls.ConnectionState) error {
				_, err := certs.PeerIdentity(state)
				if err == nil {
					err = c.admit(state.PeerCertificates[0])
				}
				if err != nil {
					return newPeerError(state, err)
				}
				return nil
			},
		}, nil
	}
	return config
}

// Client is the dialling configuration of nodes and students: TLS 1.3 with their own certificate. The server must be
// an aggregator of the same authority whose certificate names serverName, the host part of the address. Files are
// checked and reloaded as in [Server].
func Client(f certs.Files, serverName string) (*tls.Config, error) {
	if serverName == "" {
		return nil, errors.New("the server's host name is not set; use the host part of its address")
	}
	c, err := NewClientCredentials(f)
	if err != nil {
		return nil, err
	}
	return c.ClientTLS(serverName), nil
}

// ClientTLS is [Client] with these credentials. serverName must not be empty.
func (c *Credentials) ClientTLS(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		ServerName: serverName,
		// crypto/tls would verify against a fixed set of roots. verifyServer does the same with the authority
		// currently on disk.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			// The server reports and logs that the own certificate was revoked, because its list may be newer.
			m, err := c.current()
			if err == nil {
				err = c.revoked.refresh(m.authorities)
			}
			if err != nil {
				return err
			}
			if err := verifyServer(state, m.roots, serverName, c.now()); err != nil {
				return err
			}
			if err := c.admit(state.PeerCertificates[0]); err != nil {
				return fmt.Errorf("certificate of server %s: %w", serverName, err)
			}
			return nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			m, err := c.current()
			if err != nil {
				return nil, err
			}
			return &m.pair, nil
		},
	}
}

func verifyServer(state tls.ConnectionState, roots *x509.CertPool, serverName string, now time.Time) error {
	if len(state.PeerCertificates) == 0 {
		return fmt.Errorf("%w: the server has no certificate", certs.ErrNoIdentity)
	}
	leaf := state.PeerCertificates[0]
	if err := certs.VerifyChain(state.PeerCertificates, roots, x509.ExtKeyUsageServerAuth, now); err != nil {
		return fmt.Errorf("certificate of server %s: %w", serverName, err)
	}
	if err := leaf.VerifyHostname(serverName); err != nil {
		return fmt.Errorf("certificate of server %s: %w (%w); connect to a name in its certificate, or issue one "+
			"with this name",
			serverName, certs.ErrWrongHost, err)
	}
	id, err := certs.IdentityOf(leaf)
	if err != nil {
		return fmt.Errorf("certificate of server %s: %w", serverName, err)
	}
	if id.Role != certs.RoleAggregator {
		return fmt.Errorf("certificate of server %s: %w: it is for %s, not for an aggregator",
			serverName, certs.ErrWrongRole, id)
	}
	return nil
}
