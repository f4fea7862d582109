package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// protocols are offered in the handshake; gRPC insists on h2.
var protocols = []string{"h2", "http/1.1"}

// ServerTLS is what an aggregator listens with: TLS 1.3, a client certificate
// of the same authority required. The files are checked now, with an error that
// names the file and what to do, and again when they change on disk.
//
// It accepts clients of every role: ask [PeerIdentity] before answering.
func ServerTLS(f Files) (*tls.Config, error) {
	guard, err := NewServerGuard(f)
	if err != nil {
		return nil, err
	}
	return guard.ServerTLS(), nil
}

// ServerTLS is [ServerTLS] with the guard's files.
func (g *Guard) ServerTLS() *tls.Config {
	source := g.source
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m, err := source.inOrder()
		if err != nil {
			return nil, ownError{err}
		}
		// A config of its own per handshake also means that no session is
		// resumed, so that every connection is checked against today's files.
		return &tls.Config{
			MinVersion:   tls.VersionTLS13,
			NextProtos:   protocols,
			Certificates: []tls.Certificate{m.pair},
			ClientCAs:    m.roots,
			ClientAuth:   tls.RequireAndVerifyClientCert,
			VerifyConnection: func(state tls.ConnectionState) error {
				_, err := PeerIdentity(state)
				if err == nil {
					err = source.admit(state.PeerCertificates[0])
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

// ClientTLS is what nodes and students dial with: TLS 1.3, their own
// certificate, and a server that is an aggregator of the same authority and
// whose certificate names serverName, the host part of the address dialled.
// Files are checked and read again as in [ServerTLS].
func ClientTLS(f Files, serverName string) (*tls.Config, error) {
	if serverName == "" {
		return nil, errors.New("the server's host name is not set; use the host part of the address dialled")
	}
	guard, err := NewClientGuard(f)
	if err != nil {
		return nil, err
	}
	return guard.ClientTLS(serverName), nil
}

// ClientTLS is [ClientTLS] with the guard's files. serverName is not empty.
func (g *Guard) ClientTLS(serverName string) *tls.Config {
	source := g.source
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		ServerName: serverName,
		// crypto/tls would verify against a fixed set of roots. verifyServer
		// does the same work with the authority that is on disk now.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			// That the own certificate was revoked meanwhile is for the server to say and to
			// note: its list may be newer.
			m, err := source.current()
			if err == nil {
				err = source.lists(m)
			}
			if err != nil {
				return err
			}
			if err := verifyServer(state, m.roots, serverName, source.now()); err != nil {
				return err
			}
			if err := source.admit(state.PeerCertificates[0]); err != nil {
				return fmt.Errorf("certificate of server %s: %w", serverName, err)
			}
			return nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			m, err := source.current()
			if err != nil {
				return nil, err
			}
			return &m.pair, nil
		},
	}
}

func verifyServer(state tls.ConnectionState, roots *x509.CertPool, serverName string, now time.Time) error {
	if len(state.PeerCertificates) == 0 {
		return fmt.Errorf("%w: the server presented no certificate", ErrNoIdentity)
	}
	leaf := state.PeerCertificates[0]
	if err := verifyChain(state.PeerCertificates, roots, x509.ExtKeyUsageServerAuth, now); err != nil {
		return fmt.Errorf("certificate of server %s: %w", serverName, err)
	}
	if err := leaf.VerifyHostname(serverName); err != nil {
		return fmt.Errorf("certificate of server %s: %w (%w); dial it by a name in its certificate, or issue one with this name", serverName, ErrWrongHost, err)
	}
	id, err := identityOf(leaf)
	if err != nil {
		return fmt.Errorf("certificate of server %s: %w", serverName, err)
	}
	if id.Role != RoleAggregator {
		return fmt.Errorf("certificate of server %s: %w: it is for %s, not for an aggregator", serverName, ErrWrongRole, id)
	}
	return nil
}
