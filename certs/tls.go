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
	source, err := newSource(f, x509.ExtKeyUsageServerAuth, RoleAggregator)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m, err := source.current()
		if err != nil {
			return nil, err
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
				return err
			},
		}, nil
	}
	return config, nil
}

// ClientTLS is what nodes and students dial with: TLS 1.3, their own
// certificate, and a server that is an aggregator of the same authority and
// whose certificate names serverName, the host part of the address dialled.
// Files are checked and read again as in [ServerTLS].
func ClientTLS(f Files, serverName string) (*tls.Config, error) {
	if serverName == "" {
		return nil, errors.New("the server's host name is not set; use the host part of the address dialled")
	}
	source, err := newSource(f, x509.ExtKeyUsageClientAuth, RoleNode, RoleStudent, RoleAggregator)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: protocols,
		ServerName: serverName,
		// crypto/tls would verify against a fixed set of roots. verifyServer
		// does the same work with the authority that is on disk now.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			m, err := source.current()
			if err != nil {
				return err
			}
			return verifyServer(state, m.roots, serverName, source.now())
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			m, err := source.current()
			if err != nil {
				return nil, err
			}
			return &m.pair, nil
		},
	}, nil
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
